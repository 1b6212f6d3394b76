// The substitutes for each marked word.
import { ask } from "./api.js";
import { byId, make } from "./dom.js";
import { say } from "./language.js";
import { exists, state } from "./state.js";

export const SHOWN_SUBSTITUTES = 8;
let requests = new AbortController();

export async function showLists(model, report) {
  requests.abort();
  requests = new AbortController();
  const { signal } = requests;
  const marks = state.marks.filter(exists);
  const shown = byId("substitutes");
  if (!model.predicts_words) {
    shown.replaceChildren(...help("noSoftmax", "elmo serve"));
    return;
  }
  if (marks.length && !shown.querySelector("h3")) shown.replaceChildren(make("p", { class: "hint" }, say("reading")));
  try {
    const columns = await Promise.all(marks.map((mark, position) => substitutes(model, mark, "ab"[position], signal)));
    shown.replaceChildren(...(columns.length ? columns : [make("p", { class: "hint" }, say("pickOne"))]));
  } catch (error) {
    if (error.name !== "AbortError") report(error);
  }
}

async function substitutes(model, mark, side, signal) {
  const title = drawTitle(mark, side); // the words may have changed when the response arrives
  if (mark[2] > mark[1] + 1 && model.units === "words") return column(title, side, [], "oneWord");
  const response = await ask("substitutes", { ...pointed(mark), model: model.name, top_k: SHOWN_SUBSTITUTES }, signal);
  const shares = response.substitutes.map(({ log_probability: log }) => Math.exp(log));
  const rows = response.substitutes.map(({ word }, place) =>
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

// Return a hint, with commands to run, for a panel that has nothing to show.
export function help(name, commands) {
  const text = make("p", { class: "hint" }, say(name));
  return [make("div", { class: "help" }, text, make("pre", { class: "command", tabindex: 0 }, commands))];
}

function percent(share) {
  return share >= 0.1 ? `${(100 * share).toFixed(0)} %` : `${(100 * share).toFixed(1)} %`;
}
