// The sentences: a field for each, and below it its words, shaded by how alike they are to the one pointed at.
import { byId, make } from "./dom.js";
import { say } from "./language.js";
import { MAX_SENTENCES, exists, same, state, toggleMark } from "./state.js";
import { cosine, show } from "./vectors.js";

const FIELDS_GROW = CSS.supports("field-sizing", "content");

// Where the browser does not do it itself, a field is made as high as its text.
function fit(field) {
  if (FIELDS_GROW) return;
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight + 2}px`;
}

export function drawFields(events) {
  const rows = state.sentences.map((text, number) => drawRow(text, number, events));
  byId("sentences").replaceChildren(...rows);
  for (const field of document.querySelectorAll(".entry textarea")) fit(field);
  byId("add").hidden = state.sentences.length >= MAX_SENTENCES;
}

function drawRow(text, number, events) {
  const field = make("textarea", {
    rows: 1,
    id: `sentence-${number}`,
    spellcheck: "false",
    placeholder: say("placeholder"),
    oninput: () => {
      fit(field);
      events.typed(number, field.value);
    },
    // One sentence is one line.
    onkeydown: (event) => event.key === "Enter" && event.preventDefault(),
  });
  field.value = text;
  const label = make("label", {}, make("span", { class: "unseen" }, say("sentence", { number: number + 1 })), field);
  const remove = make(
    "button",
    { class: "quiet", type: "button", "aria-label": say("remove", { number: number + 1 }), onclick: () => events.removed(number) },
    "✕",
  );
  const words = make("div", {
    class: "words",
    id: `words-${number}`,
    role: "group",
    "aria-label": say("wordsOf", { number: number + 1 }),
    onmouseleave: () => events.pointed(null),
  });
  return make("div", { class: "sentence" }, make("div", { class: "entry" }, label, state.sentences.length > 1 ? remove : null), words);
}

export function drawWords(events) {
  state.sentences.forEach((text, number) => {
    const parts = [];
    let end = 0;
    (state.read[number]?.words ?? []).forEach((word, index) => {
      parts.push(text.slice(end, word.start), drawWord(word, [number, index], events));
      end = word.end;
    });
    byId(`words-${number}`)?.replaceChildren(...parts);
  });
}

function drawWord(word, place, events) {
  return make(
    "button",
    {
      class: "word",
      type: "button",
      id: wordId(place),
      tabindex: place[1] === 0 ? 0 : -1,
      "aria-pressed": "false",
      onmouseenter: () => events.pointed(place),
      onfocus: () => events.pointed(place),
      onblur: () => events.pointed(null),
      onclick: () => {
        toggleMark(place);
        events.marked(place);
      },
      onkeydown: (event) => move(event, place, events),
    },
    make("span", {}, word.text),
    make("span", { class: "score", "aria-hidden": "true" }, ""),
  );
}

export function wordId([sentence, word]) {
  return `word-${sentence}-${word}`;
}

function move(event, [sentence, word], events) {
  const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
  if (event.key === "Escape") {
    state.marks = [];
    events.marked(null);
    return;
  }
  const step = steps[event.key];
  if (!step) return;
  event.preventDefault();
  const target = sentence + step[0];
  const last = (state.read[target]?.words.length ?? 0) - 1;
  const place = [target, Math.min(word + step[1], last)];
  if (!exists(place)) return;
  for (const other of byId(`words-${target}`).querySelectorAll(".word")) other.tabIndex = -1;
  const button = byId(wordId(place));
  button.tabIndex = 0;
  button.focus();
}

// Shades every word; gives those most alike to the one pointed at, best first.
export function shade(mixes) {
  const place = exists(state.active) ? state.active : null;
  const found = [];
  mixes.forEach((vectors, sentence) =>
    vectors.forEach((vector, word) => {
      const alike = place ? cosine(mixes[place[0]][place[1]], vector) : null;
      found.push({ place: [sentence, word], alike });
    }),
  );
  const others = found.filter((each) => place && !same(each.place, place));
  const lowest = Math.min(...others.map((each) => each.alike));
  const highest = Math.max(...others.map((each) => each.alike));
  for (const each of found) showAlike(each, place, lowest, highest);
  showLegend(others.length > 0, lowest, highest);
  return others.sort((one, other) => other.alike - one.alike);
}

function showAlike({ place, alike }, active, lowest, highest) {
  const button = byId(wordId(place));
  if (!button) return;
  const text = state.read[place[0]].words[place[1]].text;
  const isActive = same(place, active);
  const range = highest - lowest;
  const heat = active && !isActive ? (range > 1e-9 ? (alike - lowest) / range : 1) : 0;
  button.style.setProperty("--alike", heat.toFixed(3));
  button.classList.toggle("active", isActive);
  button.lastChild.textContent = active ? (isActive ? "" : show(alike)) : "";
  button.dataset.cosine = active ? String(alike) : "";
  const position = state.marks.findIndex((mark) => same(mark, place));
  button.setAttribute("aria-pressed", String(position >= 0));
  if (position >= 0) button.dataset.mark = "AB"[position];
  else delete button.dataset.mark;
  button.setAttribute("aria-label", active && !isActive ? `${text}, ${show(alike)}` : text);
}

function showLegend(isShown, lowest, highest) {
  byId("legend").hidden = !isShown;
  if (!isShown) return;
  byId("lowest").textContent = show(lowest);
  byId("highest").textContent = show(highest);
}
