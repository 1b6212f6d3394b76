// What the page shows, and the same as the address of the page, so that a link shows it again.

export const MAX_SENTENCES = 4;

export const state = {
  sentences: [], // texts
  marks: [], // at most two [sentence, word]
  active: null, // [sentence, word] that is pointed at
  weights: [], // s_0 … s_L, not yet divided by their sum
  gamma: 1,
  byMeaning: true, // compare by the context layer too, if the model has one, else by the mix of layers
  model: null, // name, or null for the first
  tab: "meaning",
  read: [], // of each sentence: { words, layers, meaning }
};

export function same(one, other) {
  return Boolean(one && other) && one[0] === other[0] && one[1] === other[1];
}

export function exists(place) {
  return Boolean(place) && state.read[place[0]]?.words[place[1]] !== undefined;
}

export function toggleMark(place) {
  const kept = state.marks.filter((mark) => !same(mark, place));
  state.marks = kept.length < state.marks.length ? kept : [...kept, place].slice(-2);
}

export function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const numbers = (text) => text.split(",").map(Number).filter(Number.isFinite);
  state.sentences = given.getAll("s").slice(0, MAX_SENTENCES);
  state.marks = given.getAll("mark").map(numbers).filter((mark) => mark.length === 2).slice(0, 2);
  state.weights = given.has("weights") ? numbers(given.get("weights")).map((w) => Math.max(0, Math.min(1, w))) : [];
  state.gamma = Math.max(0.1, Math.min(3, Number(given.get("gamma") ?? 1) || 1));
  state.byMeaning = !given.has("weights") && given.get("by") !== "mix";
  state.model = given.get("model");
  state.tab = given.get("tab") === "tasks" ? "tasks" : "meaning";
  return given.get("lang");
}

export function writeAddress(language) {
  const values = new URLSearchParams();
  for (const text of state.sentences) values.append("s", text);
  for (const mark of state.marks) values.append("mark", mark.join(","));
  if (state.weights.some((weight) => weight !== state.weights[0])) values.set("weights", state.weights.join(","));
  if (state.gamma !== 1) values.set("gamma", String(state.gamma));
  if (!state.byMeaning) values.set("by", "mix");
  if (state.model) values.set("model", state.model);
  if (state.tab !== "meaning") values.set("tab", state.tab);
  values.set("lang", language);
  history.replaceState(null, "", `#${values}`);
}
