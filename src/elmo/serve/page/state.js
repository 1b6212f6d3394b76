// The state of the page, which is stored in its address, so that a link restores it.

export const MAX_SENTENCES = 6;
export const TABS = ["meaning", "senses", "tasks"];

export const state = {
  sentences: [], // texts
  marks: [], // at most two [sentence, start, end]; start and end are indices of the model's words
  active: null, // [sentence, start, end] under the pointer
  weights: [], // s_0 … s_L, not yet divided by their sum
  gamma: 1,
  isExample: false, // whether the sentences are from an example
  hasFunctionWords: false, // shade function words too
  byMeaning: true, // compare by "meaning" if the model has a context layer, else by the mix of layers
  model: null, // name, or null for the first
  tab: "meaning",
  read: [], // per sentence: { text, words, units, layers, meaning, phrases }
  mapped: [], // sentences of the map, each with its word in [brackets]
  numSenses: 2, // 0: chosen by clustering
  mapLayer: null, // null: the last
};

export function same(first, second) {
  return Boolean(first && second) && first.every((value, place) => value === second[place]);
}

export function exists(place) {
  return Boolean(place) && place[1] < place[2] && place[2] <= (state.read[place[0]]?.words.length ?? 0);
}

export function textOf([sentence, start, end]) {
  const { text, words } = state.read[sentence];
  return text.slice(words[start].start, words[end - 1].end);
}

export function toggleMark(place) {
  const kept = state.marks.filter((mark) => !same(mark, place));
  const apart = kept.filter((mark) => mark[0] !== place[0] || mark[2] <= place[1] || place[2] <= mark[1]);
  state.marks = kept.length < state.marks.length ? kept : [...apart, place].slice(-2);
}

// Extend the mark of a sentence to another word.
export function stretchMark(place) {
  const number = state.marks.findLastIndex((mark) => mark[0] === place[0]);
  if (number < 0) return toggleMark(place);
  const [sentence, start, end] = state.marks[number];
  const longer = [sentence, Math.min(start, place[1]), Math.max(end, place[2])];
  const overlaps = (mark, index) => index !== number && mark[0] === sentence && mark[1] < longer[2] && longer[1] < mark[2];
  state.marks = state.marks.map((mark, index) => (index === number ? longer : mark)).filter((mark, index) => !overlaps(mark, index));
  return undefined;
}

export function readAddress() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  const numbers = (text) => text.split(",").map(Number).filter(Number.isFinite);
  const isPlace = (mark) => [2, 3].includes(mark.length) && mark.every((value) => Number.isSafeInteger(value) && value >= 0);
  state.sentences = parameters.getAll("s").slice(0, MAX_SENTENCES);
  const marks = parameters.getAll("mark").map(numbers).filter(isPlace);
  state.marks = marks.map(([sentence, start, end]) => [sentence, start, end ?? start + 1]).slice(0, 2);
  state.weights = parameters.has("weights") ? numbers(parameters.get("weights")).map((w) => Math.max(0, Math.min(1, w))) : [];
  state.gamma = Math.max(0.1, Math.min(3, Number(parameters.get("gamma") ?? 1) || 1));
  state.byMeaning = !parameters.has("weights") && parameters.get("by") !== "mix";
  state.model = parameters.get("model");
  state.tab = TABS.includes(parameters.get("tab")) ? parameters.get("tab") : "meaning";
  state.mapped = parameters.getAll("map");
  state.numSenses = Math.max(0, Math.min(8, Math.trunc(Number(parameters.get("senses") ?? 2)) || 0));
  state.mapLayer = parameters.get("layer");
  return parameters.get("lang");
}

export function writeAddress(language) {
  const values = new URLSearchParams();
  for (const text of state.sentences) values.append("s", text);
  for (const [sentence, start, end] of state.marks) {
    values.append("mark", (end === start + 1 ? [sentence, start] : [sentence, start, end]).join(","));
  }
  if (state.weights.some((weight) => weight !== state.weights[0])) values.set("weights", state.weights.join(","));
  if (state.gamma !== 1) values.set("gamma", String(state.gamma));
  if (!state.byMeaning) values.set("by", "mix");
  if (state.model) values.set("model", state.model);
  if (state.tab !== "meaning") values.set("tab", state.tab);
  if (state.tab === "senses") {
    for (const text of state.mapped) values.append("map", text);
    values.set("senses", String(state.numSenses));
    if (state.mapLayer !== null) values.set("layer", state.mapLayer);
  }
  values.set("lang", language);
  history.replaceState(null, "", `#${values}`);
}
