// For each marked word: what else could stand there, and where words are used alike.
import { ask } from "./api.js";
import { byId, make, options } from "./dom.js";
import { say } from "./language.js";
import { exists, state } from "./state.js";
import { show } from "./vectors.js";

const SHOWN_SUBSTITUTES = 8;
const SHOWN_NEIGHBORS = 6;
const SHOWN_LETTERS = 120; // on each side of a word
let requests = new AbortController();

export function setUpLists(model, refresh) {
  byId("substitutes-card").hidden = !model.predicts_words;
  byId("neighbors-card").hidden = !model.index;
  if (!model.index) return;
  const named = { average: "averageLayer", meaning: "meaning" };
  const layerName = (layer) => (layer in named ? say(named[layer]) : say("layer", { number: layer }));
  const layers = model.index.layers.map((layer) => [String(layer), layerName(layer)]);
  const words = [["any", say("anyWord")], ["same", say("sameWord")], ["other", say("otherWord")]];
  options(byId("neighbor-layer"), layers, byId("neighbor-layer").value || layers.at(-1)[0]);
  options(byId("neighbor-words"), words, byId("neighbor-words").value || "any");
  byId("neighbor-layer").onchange = refresh;
  byId("neighbor-words").onchange = refresh;
}

export async function showLists(model, report) {
  requests.abort();
  requests = new AbortController();
  const { signal } = requests;
  const marks = state.marks.filter(exists);
  const shown = [];
  if (model.predicts_words) shown.push(fill("substitutes", marks, (mark, side) => substitutes(model, mark, side, signal)));
  if (model.index) shown.push(fill("neighbors", marks, (mark, side) => neighbors(model, mark, side, signal)));
  try {
    await Promise.all(shown);
  } catch (error) {
    if (error.name !== "AbortError") report(error);
  }
}

async function fill(id, marks, find) {
  const columns = await Promise.all(marks.map((mark, position) => find(mark, "ab"[position])));
  byId(id).replaceChildren(...(columns.length ? columns : [make("p", { class: "hint" }, say("pickTwo"))]));
}

async function substitutes(model, mark, side, signal) {
  const title = drawTitle(mark, side); // the words may be others when the answer comes
  const found = await ask("substitutes", { ...pointed(mark), model: model.name, top_k: SHOWN_SUBSTITUTES }, signal);
  const rows = found.substitutes.map(({ word, log_probability: log }) => {
    const share = Math.exp(log);
    return row(percent(share), make("span", { class: "bar", "--share": share.toFixed(4) }, make("span", {}, word)));
  });
  return column(title, side, rows);
}

async function neighbors(model, mark, side, signal) {
  const title = drawTitle(mark, side);
  const layer = byId("neighbor-layer").value;
  const asked = {
    ...pointed(mark),
    model: model.name,
    top_k: SHOWN_NEIGHBORS,
    layers: [/^\d+$/.test(layer) ? Number(layer) : layer],
    words: byId("neighbor-words").value,
  };
  const found = await ask("neighbors", asked, signal);
  const rows = found.layers[0].neighbors.map((each) => {
    return row(show(each.cosine), make("span", { class: "sentence-text" }, ...excerpt(each.text, each.characters)));
  });
  return column(title, side, rows);
}

// The marked word with the text around it; the server counts characters, not the halves that JavaScript counts.
function excerpt(text, [start, end]) {
  const letters = [...text];
  const join = (from, to) => letters.slice(from, to).join("");
  const before = start > SHOWN_LETTERS ? `…${join(start - SHOWN_LETTERS, start).replace(/^\S*/, "")}` : join(0, start);
  const after = letters.length - end > SHOWN_LETTERS ? `${join(end, end + SHOWN_LETTERS).replace(/\S*$/, "")}…` : join(end);
  return [before, make("mark", {}, join(start, end)), after];
}

function pointed([sentence, word]) {
  return { sentence: state.read[sentence].given, index: word };
}

function drawTitle([sentence, index], side) {
  const { text, words } = state.read[sentence];
  const { start, end } = words[index];
  const before = text.slice(words[Math.max(0, index - 4)].start, start);
  const after = text.slice(end, words[Math.min(words.length - 1, index + 4)].end);
  return make("h3", {}, before, make("span", { class: `mark-${side}` }, text.slice(start, end)), after);
}

function column(title, side, rows) {
  const list = rows.length ? make("ol", { class: "ranks" }, ...rows) : make("p", { class: "hint" }, say("none"));
  return make("div", { class: `side-${side}` }, title, list);
}

function row(number, content) {
  return make("li", {}, make("span", { class: "share" }, number), content);
}

function percent(share) {
  return share >= 0.1 ? `${(100 * share).toFixed(0)} %` : `${(100 * share).toFixed(1)} %`;
}
