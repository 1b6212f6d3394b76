// The sense map: one word in many sentences, plotted for each layer and colored by sense.
import { ask } from "./api.js";
import { byId, draw, make, options } from "./dom.js";
import { say } from "./language.js";
import { state } from "./state.js";
import { readMarked } from "./units.js";

const SIZE = 420;
const MARGIN = 26;
const TYPING_MS = 400;
const MOST_SENSES = 5;
const SHAPES = ["M-6 0a6 6 0 1 0 12 0a6 6 0 1 0-12 0z", "M-5.5-5.5h11v11h-11z", "M0-7l6.6 12h-13.2z", "M0-7.5l7 7.5-7 7.5-7-7.5z", "M-6-6l12 12M6-6l-12 12"];
let senseMap = null; // the last response
let mappedSentences = null; // its sentences
let requests = new AbortController();
let typing = null;

export function shownSenses() {
  return senseMap === null ? null : { ...senseMap, sentences: mappedSentences };
}

export function setUpMap(model, examples, report, changed) {
  const chosen = byId("map-examples");
  options(chosen, [["", say("chooseExample")], ...examples.map(({ name }, number) => [String(number), name])], "");
  chosen.onchange = () => {
    if (chosen.value === "") return;
    useMapExample(examples[Number(chosen.value)]);
    chosen.value = "";
    showMap(model, report, changed);
  };
  const counts = Array.from({ length: MOST_SENSES }, (_, number) => [String(number + 1), String(number + 1)]);
  options(byId("map-count"), [["0", say("asFound")], ...counts], String(state.numSenses));
  byId("map-count").onchange = ({ target }) => {
    state.numSenses = Number(target.value);
    showMap(model, report, changed);
  };
  const field = byId("map-text");
  field.placeholder = say("mapPlaceholder");
  field.value = state.mapped.join("\n");
  field.oninput = () => {
    state.mapped = field.value.split("\n").filter((line) => line.trim());
    clearTimeout(typing);
    typing = setTimeout(() => showMap(model, report, changed), TYPING_MS);
  };
  if (senseMap) drawMap(changed);
}

export function useMapExample(example) {
  state.mapped = [...example.sentences];
  state.numSenses = example.num_senses;
  state.mapLayer = null;
  byId("map-text").value = state.mapped.join("\n");
  byId("map-count").value = String(state.numSenses);
}

// Find the word marked in the first line with brackets, and mark it in all lines without brackets.
function markLines(lines) {
  const first = lines.map(readMarked).find(Boolean);
  if (!first) return { sentences: [], leftOut: lines.length };
  const word = first.text.slice(first.start, first.end).replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const whole = /\p{Script=Han}/u.test(word) ? new RegExp(word, "u") : new RegExp(`(?<![\\p{L}\\p{N}])${word}(?![\\p{L}\\p{N}])`, "iu");
  const marked = lines.map((line) => (readMarked(line) ? line : line.replace(/[[\]]/g, "").replace(whole, "[$&]")));
  const sentences = marked.filter(readMarked);
  return { sentences, leftOut: lines.length - sentences.length };
}

export async function showMap(model, report, changed) {
  requests.abort();
  requests = new AbortController();
  const { sentences, leftOut } = markLines(state.mapped);
  byId("map-note").textContent = leftOut && sentences.length ? say("leftOut", { count: leftOut }) : "";
  if (sentences.length < 3) {
    senseMap = null;
    showEmptyMap(sentences.length || state.mapped.length ? "mapTooFew" : "mapEmpty");
    changed();
    return;
  }
  const count = Math.min(state.numSenses, sentences.length);
  if (!senseMap) byId("map").replaceChildren(make("p", { class: "empty" }, say("reading")));
  const body = { sentences, model: model.name, ...(count ? { num_senses: count } : {}) };
  try {
    const response = await ask("senses", body, requests.signal);
    [senseMap, mappedSentences] = [response, sentences];
    report(null);
    drawMap(changed);
    changed();
  } catch (error) {
    if (error.name !== "AbortError") report(error);
  }
}

function showEmptyMap(name) {
  byId("map").replaceChildren(make("p", { class: "empty" }, say(name)));
  byId("map-edit").open = true;
  for (const id of ["map-layers", "map-legend", "map-sentences"]) byId(id).replaceChildren();
}

function layerName(layer) {
  if (layer === 0) return say("mapLayerZero");
  return layer === "meaning" ? say("meaning") : say("layer", { number: layer });
}

function shownLayer() {
  return senseMap.layers.find(({ layer }) => String(layer) === state.mapLayer) ?? senseMap.layers.at(-1);
}

export function senseName({ words }, number) {
  return words.length ? words.join(/\p{Script=Han}/u.test(words[0]) ? "、" : ", ") : say("oneSense", { number: number + 1 });
}

function drawMap(changed) {
  const dots = senseMap.occurrences.map(({ sense }, number) =>
    draw(
      "g",
      { class: `dot sense-${sense % SHAPES.length}`, "data-number": number, onmouseenter: () => highlight(number), onmouseleave: () => highlight(null) },
      draw("circle", { class: "halo", r: 13 }),
      draw("path", { d: SHAPES[sense % SHAPES.length] }),
    ),
  );
  byId("map").replaceChildren(draw("svg", { class: "map", viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img", "aria-labelledby": "map-said" }, ...dots));
  byId("map-layers").replaceChildren(
    ...senseMap.layers.map(({ layer }) =>
      make(
        "button",
        {
          class: "quiet",
          type: "button",
          "data-layer": layer,
          onclick: () => {
            state.mapLayer = layer === senseMap.layers.at(-1).layer ? null : String(layer);
            placeDots(shownLayer());
            changed();
          },
        },
        layerName(layer),
      ),
    ),
  );
  byId("map-legend").replaceChildren(
    ...senseMap.senses.map((sense, number) =>
      make("li", { class: `sense-${number % SHAPES.length}` }, drawSign(number), make("strong", {}, senseName(sense, number)), ` ${sense.num_occurrences}`),
    ),
  );
  const order = senseMap.occurrences.map((_, number) => number).sort((a, b) => senseMap.occurrences[a].sense - senseMap.occurrences[b].sense);
  byId("map-sentences").replaceChildren(...order.map(drawSentence));
  placeDots(shownLayer());
}

function drawSign(number) {
  return draw("svg", { class: "sign", viewBox: "-9 -9 18 18", "aria-hidden": "true" }, draw("path", { d: SHAPES[number % SHAPES.length] }));
}

function drawSentence(number) {
  const { text, start, end } = readMarked(mappedSentences[number]);
  const { sense } = senseMap.occurrences[number];
  return make(
    "li",
    { class: `sense-${sense % SHAPES.length}`, "data-number": number, onmouseenter: () => highlight(number), onmouseleave: () => highlight(null) },
    drawSign(sense),
    make("span", {}, text.slice(0, start), make("mark", {}, text.slice(start, end)), text.slice(end)),
  );
}

function placeDots({ layer, points }) {
  const limit = Math.max(...senseMap.layers.flatMap((map) => map.points.flat().map(Math.abs)), 1e-6);
  const scale = (SIZE / 2 - MARGIN) / limit;
  byId("map").querySelectorAll(".dot").forEach((dot, number) => {
    const [x, y] = points[number];
    dot.style.transform = `translate(${(SIZE / 2 + scale * x).toFixed(1)}px, ${(SIZE / 2 - scale * y).toFixed(1)}px)`;
  });
  for (const button of byId("map-layers").children) {
    button.setAttribute("aria-pressed", String(button.dataset.layer === String(layer)));
  }
  const senses = senseMap.senses.map((sense, number) => `${senseName(sense, number)} (${sense.num_occurrences})`).join("; ");
  byId("map-said").textContent = say("mapText", { word: senseMap.word, count: senseMap.occurrences.length, layer: layerName(layer), senses });
}

function highlight(number) {
  for (const element of document.querySelectorAll("#panel-senses [data-number]")) {
    element.classList.toggle("pointed", number !== null && element.dataset.number === String(number));
  }
}
