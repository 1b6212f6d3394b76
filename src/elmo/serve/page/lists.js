// For each marked word: substitutes, and similar uses in a corpus.
import { ask } from "./api.js";
import { byId, make, options } from "./dom.js";
import { say } from "./language.js";
import { exists, state } from "./state.js";
import { show } from "./vectors.js";

const SHOWN_SUBSTITUTES = 8;
const SHOWN_NEIGHBORS = 6;
const SHOWN_LETTERS = 120; // on each side of a word
const HOW_TO_INDEX = "elmo neighbors --build index --corpus texts.txt\nelmo serve --index index";
let requests = new AbortController();

export function setUpLists(model, refresh) {
  byId("neighbor-choices").hidden = !model.index;
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
  else byId("substitutes").replaceChildren(...help("noSoftmax", "elmo serve"));
  if (model.index) shown.push(fill("neighbors", marks, (mark, side) => neighbors(model, mark, side, signal)));
  else byId("neighbors").replaceChildren(...help("noIndex", HOW_TO_INDEX));
  try {
    await Promise.all(shown);
  } catch (error) {
    if (error.name !== "AbortError") report(error);
  }
}

async function fill(id, marks, find) {
  if (marks.length && !byId(id).querySelector("h3")) byId(id).replaceChildren(make("p", { class: "hint" }, say("reading")));
  const columns = await Promise.all(marks.map((mark, position) => find(mark, "ab"[position])));
  byId(id).replaceChildren(...(columns.length ? columns : [make("p", { class: "hint" }, say("pickOne"))]));
}

async function substitutes(model, mark, side, signal) {
  const title = drawTitle(mark, side); // the words may have changed when the response arrives
  if (mark[2] > mark[1] + 1 && model.units === "words") return column(title, side, [], "oneWord");
  const found = await ask("substitutes", { ...pointed(mark), model: model.name, top_k: SHOWN_SUBSTITUTES }, signal);
  const shares = found.substitutes.map(({ log_probability: log }) => Math.exp(log));
  const rows = found.substitutes.map(({ word }, place) =>
    make(
      "li",
      { class: "bar-row" },
      make("span", { class: "bar-word" }, word),
      make("span", { class: "track", "aria-hidden": "true" }, make("span", { class: "fill", "--share": (shares[place] / shares[0]).toFixed(4) })),
      make("span", { class: "share" }, percent(shares[place])),
    ),
  );
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

// The marked word with the text around it; offsets of the server count code points, not UTF-16 code units.
function excerpt(text, [start, end]) {
  const letters = [...text];
  const join = (from, to) => letters.slice(from, to).join("");
  const before = start > SHOWN_LETTERS ? `…${join(start - SHOWN_LETTERS, start).replace(/^\S*/, "")}` : join(0, start);
  const after = letters.length - end > SHOWN_LETTERS ? `${join(end, end + SHOWN_LETTERS).replace(/\S*$/, "")}…` : join(end);
  return [before, make("mark", {}, join(start, end)), after];
}

function pointed([sentence, start, end]) {
  const { text, words } = state.read[sentence];
  if (end === start + 1) return { sentence: text, index: start };
  const [from, to] = [words[start].start, words[end - 1].end];
  return { sentence: `${text.slice(0, from)}[${text.slice(from, to)}]${text.slice(to)}` };
}

function drawTitle([sentence, start, end], side) {
  const { text, words } = state.read[sentence];
  const from = words[Math.max(0, start - 4)].start;
  const to = words[Math.min(words.length, end + 4) - 1].end;
  const [markFrom, markTo] = [words[start].start, words[end - 1].end];
  return make(
    "h3",
    {},
    text.slice(from, markFrom),
    make("span", { class: `mark-${side}` }, text.slice(markFrom, markTo)),
    text.slice(markTo, to),
  );
}

function column(title, side, rows, empty = "none") {
  const list = rows.length ? make("ol", { class: "ranks" }, ...rows) : make("p", { class: "hint" }, say(empty));
  return make("div", { class: `side-${side}` }, title, list);
}

// A hint where there is nothing to show, with the commands to run.
export function help(name, commands) {
  const text = make("p", { class: "hint" }, say(name));
  return [make("div", { class: "help" }, text, make("pre", { class: "command", tabindex: 0 }, commands))];
}

function row(number, content) {
  return make("li", {}, make("span", { class: "share" }, number), content);
}

function percent(share) {
  return share >= 0.1 ? `${(100 * share).toFixed(0)} %` : `${(100 * share).toFixed(1)} %`;
}
