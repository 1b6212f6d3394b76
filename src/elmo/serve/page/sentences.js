// Text fields for the sentences, and their words, shaded by similarity to the word under the pointer.
import { byId, make } from "./dom.js";
import { say } from "./language.js";
import { MAX_SENTENCES, exists, same, state, stretchMark, textOf, toggleMark } from "./state.js";
import { cosine, show, vectorOf } from "./vectors.js";

const FIELDS_GROW = CSS.supports("field-sizing", "content");

// Fit the height of a field to its text, in browsers without field-sizing.
function fit(field) {
  if (FIELDS_GROW) return;
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight + 2}px`;
}

// Function words have similar positions in all sentences, so their vectors are similar to those of many words.
const FUNCTION_WORDS = new Set(
  (
    "a an the this that these those and or but if of to in on at by for from with as into than so not no i you he she it we they " +
    "me him her us them my your his its our their is are was were be been am do does did has have had will would can could " +
    "should may might must there here who which what when where how very too also just 's n't 't 的 了 在 是 和 与 着 过 地 得 " +
    "也 都 就 很 不 没 有 我 你 他 她 它 我们 你们 他们 这 那 这个 那个 一 个 一个 把 被 给 对 从 到 上 里 中 吗 呢 吧 啊 之 而"
  ).split(" "),
);

function isFunctionWord(text) {
  return FUNCTION_WORDS.has(text.toLowerCase()) || !/[\p{L}\p{N}]/u.test(text);
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
    const { words = [], units = [] } = state.read[number] ?? {};
    const parts = [];
    let end = 0;
    for (const unit of units) {
      parts.push(text.slice(end, words[unit.start].start), drawWord(unit, [number, unit.start, unit.end], events));
      end = words[unit.end - 1].end;
    }
    byId(`words-${number}`)?.replaceChildren(...parts);
  });
}

function drawWord(unit, place, events) {
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
      onclick: (event) => {
        if (event.shiftKey) stretchMark(place);
        else toggleMark(place);
        events.marked(place);
      },
      onkeydown: (event) => move(event, place, events),
    },
    make("span", {}, unit.text),
    make("span", { class: "score", "aria-hidden": "true" }, ""),
  );
}

export function wordId([sentence, start]) {
  return `word-${sentence}-${start}`;
}

function move(event, [sentence, start, end], events) {
  const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
  if (event.key === "Escape") {
    state.marks = [];
    events.marked(null);
    return;
  }
  const step = steps[event.key];
  if (!step) return;
  event.preventDefault();
  if (event.shiftKey && step[1]) {
    resize([sentence, start, end], step[1], events);
    return;
  }
  const { units } = state.read[sentence];
  const number = units.findIndex((unit) => unit.start === start) + step[1];
  const targets = state.read[sentence + step[0]]?.units ?? [];
  const target = targets[Math.min(number, targets.length - 1)];
  if (target) focusWord([sentence + step[0], target.start, target.end]);
}

// Extend or shorten a word by one token of the model, with Shift and an arrow key, and mark it.
function resize([sentence, start, end], step, events) {
  const longer = [sentence, start, Math.max(start + 1, end + step)];
  if (!exists(longer)) return;
  state.marks = state.marks.filter((mark) => mark[0] !== sentence || mark[2] <= start || longer[2] <= mark[1]);
  state.marks = [...state.marks, longer].slice(-2);
  events.marked(longer);
  focusWord(longer);
}

export function focusWord(place) {
  const button = byId(wordId(place));
  if (!button) return;
  for (const word of byId(`words-${place[0]}`).querySelectorAll(".word")) word.tabIndex = -1;
  button.tabIndex = 0;
  button.focus();
}

// Shade every word; return the words most similar to the active one, best first.
export function shade(mixes) {
  const place = exists(state.active) ? state.active : null;
  const target = place ? vectorOf(mixes, place) : null;
  const words = state.read.flatMap(({ units }, sentence) =>
    units.map(({ start, end }) => {
      const wordPlace = [sentence, start, end];
      const isHidden = !state.hasFunctionWords && isFunctionWord(textOf(wordPlace)) && !state.marks.some((mark) => same(mark, wordPlace));
      return { place: wordPlace, isHidden, similarity: target ? cosine(target, vectorOf(mixes, wordPlace)) : null };
    }),
  );
  const neighbors = words.filter((word) => place && !word.isHidden && !same(word.place, place));
  const lowest = Math.min(...neighbors.map((word) => word.similarity));
  const highest = Math.max(...neighbors.map((word) => word.similarity));
  for (const word of words) showSimilarity(word, place, lowest, highest);
  showLegend(neighbors.length > 0, lowest, highest);
  return neighbors.sort((a, b) => b.similarity - a.similarity);
}

function showSimilarity({ place, similarity, isHidden }, active, lowest, highest) {
  const button = byId(wordId(place));
  if (!button) return;
  const text = textOf(place);
  const isActive = same(place, active);
  const range = highest - lowest;
  const isShaded = Boolean(active) && !isActive && !isHidden;
  const heat = isShaded ? (range > 1e-9 ? (similarity - lowest) / range : 1) : 0;
  button.style.setProperty("--alike", heat.toFixed(3));
  button.classList.toggle("active", isActive);
  button.classList.toggle("faint", Boolean(active) && isHidden && !isActive);
  button.lastChild.textContent = isShaded ? show(similarity) : "";
  button.dataset.cosine = active ? String(similarity) : "";
  const position = state.marks.findIndex((mark) => same(mark, place));
  button.setAttribute("aria-pressed", String(position >= 0));
  if (position >= 0) button.dataset.mark = "AB"[position];
  else delete button.dataset.mark;
  button.setAttribute("aria-label", active && !isActive ? `${text}, ${show(similarity)}` : text);
}

function showLegend(isShown, lowest, highest) {
  byId("legend").hidden = !isShown;
  if (!isShown) return;
  byId("lowest").textContent = show(lowest);
  byId("highest").textContent = show(highest);
}
