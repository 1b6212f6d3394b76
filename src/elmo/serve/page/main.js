// The whole page: the server computes the vectors of the sentences, and this script compares them.
import { showAbout } from "./about.js";
import { ask, isLocal } from "./api.js";
import { drawComparison } from "./chart.js";
import { byId, options } from "./dom.js";
import { examplesFor, loadExamples } from "./examples.js";
import { chooseLanguage, language, say, switchLanguage } from "./language.js";
import { drawSliders, showShares } from "./layers.js";
import { showLists } from "./lists.js";
import { setUpMap, showMap, useMapExample } from "./map.js";
import { drawFields, drawWords, focusWord, shade, wordId } from "./sentences.js";
import { TABS, exists, readAddress, state, textOf, writeAddress } from "./state.js";
import { predictExample, setUpTasks } from "./tasks.js";
import { showTheme, switchTheme } from "./theme_choice.js";
import { groupWords, readMarked } from "./units.js";
import { showUse } from "./use.js";
import { decode, mix, show } from "./vectors.js";

const TYPING_MS = 250;
let served = { models: [], tasks: [] };
let mixes = [];
let comparison = null;
let typing = null;
let reading = new AbortController();
const markedTexts = new Map(); // place -> text of the word marked there

const events = {
  typed(number, text) {
    state.sentences[number] = text;
    state.isExample = false;
    clearTimeout(typing);
    typing = setTimeout(read, TYPING_MS);
  },
  removed(number) {
    state.sentences.splice(number, 1);
    state.isExample = false;
    state.read.splice(number, 1);
    state.marks = state.marks.filter(([sentence]) => sentence !== number).map(([s, ...w]) => [s > number ? s - 1 : s, ...w]);
    drawFields(events);
    read();
    byId(`sentence-${Math.min(number, state.sentences.length - 1)}`).focus();
  },
  pointed(place) {
    state.active = place ?? state.marks[0] ?? null;
    const best = shade(mixes);
    if (place && document.activeElement?.id === wordId(place)) announceSimilar(place, best);
  },
  marked(place) {
    state.active = place ?? state.marks[0] ?? state.active;
    if (group()) {
      drawWords(events);
      if (place) focusWord(state.marks.find((mark) => mark[0] === place[0] && mark[1] <= place[1] && place[1] < mark[2]) ?? place);
    }
    refresh();
    readPhrases();
    showLists(model(), tell);
  },
};

// Regroup characters into words; return whether any group has changed.
function group() {
  let isChanged = false;
  state.read.forEach((read, number) => {
    const spans = state.marks.filter((mark) => mark[0] === number && exists(mark)).map(([, ...span]) => span);
    const units = groupWords(read.text, read.words, spans);
    isChanged ||= JSON.stringify(units) !== JSON.stringify(read.units);
    read.units = units;
  });
  return isChanged;
}

function model() {
  return served.models.find(({ name }) => name === state.model) ?? served.models[0];
}

function tell(error) {
  byId("error").hidden = !error;
  byId("error").textContent = error?.message ?? "";
}

function announce(text) {
  byId("status").textContent = text;
}

function announceSimilar(place, best) {
  const list = best.slice(0, 3).map(({ place: neighbor, similarity }) => `${textOf(neighbor)} ${show(similarity)}`).join(say("comma"));
  if (list) announce(say("mostAlike", { word: textOf(place), list }));
}

// Choose another model if the visitor's sentences are in a script that only it was trained on.
function followScript() {
  if (state.isExample || state.sentences.some((text) => text.trim() && knows(model(), text))) return;
  const better = served.models.find((candidate) => state.sentences.every((text) => knows(candidate, text)));
  if (!better || better === model()) return;
  state.model = better.name;
  state.mapped = [];
  byId("model").value = better.name;
  drawExamples();
  useModel();
}

async function read() {
  reading.abort();
  reading = new AbortController();
  writeAddress(language());
  for (const mark of state.marks.filter(exists)) markedTexts.set(String(mark), textOf(mark));
  const isEmpty = !state.sentences.some((text) => text.trim());
  byId("empty").hidden = !isEmpty;
  if (isEmpty) {
    [state.read, state.active] = [[], null];
    drawWords(events);
    refresh();
    showLists(model(), tell);
    return;
  }
  followScript();
  showScriptNote();
  announce(say("reading"));
  try {
    const request = { sentences: state.sentences, encoding_format: "base64", model: model().name };
    const layerChoices = model().has_context ? ["all", "meaning"] : ["all"];
    const [all, meaning] = await Promise.all(layerChoices.map((layers) => ask("embed", { ...request, layers }, reading.signal)));
    state.read = all.sentences.map((sentence, number) => ({
      text: state.sentences[number],
      words: toCodeUnits(state.sentences[number], sentence.words),
      layers: decode(sentence),
      meaning: meaning ? decode(meaning.sentences[number]).map(([vector]) => vector) : null,
      phrases: new Map(), // "start,end" -> the vector by meaning
    }));
    state.marks = state.marks.map(follow);
    state.active = state.marks.find(exists) ?? null;
    group();
    tell(null);
    drawWords(events);
    refresh();
    readPhrases();
    announce(say("read", { count: state.read.reduce((sum, { words }) => sum + words.length, 0) }));
    showLists(model(), tell);
  } catch (error) {
    if (error.name !== "AbortError") tell(error);
  }
}

// Move a mark with its word when the sentence changes around it; if the word itself changes, the mark stays in place.
function follow(mark) {
  const text = markedTexts.get(String(mark));
  if (text === undefined || (exists(mark) && textOf(mark) === text)) return mark;
  const [sentence, start, end] = mark;
  const { text: sentenceText, words } = state.read[sentence] ?? { words: [] };
  if (!words.length) return mark; // while the field is empty
  const places = words.map((_, first) => [sentence, first, first + end - start]);
  const nearest = (a, b) => Math.abs(a[1] - start) - Math.abs(b[1] - start);
  const same = places.filter((place) => exists(place) && textOf(place) === text).sort(nearest)[0];
  const there = groupWords(sentenceText, words, []).find((unit) => Math.min(start, words.length - 1) < unit.end);
  const moved = same ?? [sentence, there.start, there.end];
  markedTexts.set(String(moved), text);
  return moved;
}

// Convert code points (the server's offsets) to UTF-16 code units.
function toCodeUnits(text, words) {
  const places = [0];
  for (const letter of text) places.push(places.at(-1) + letter.length);
  return words.map(({ text: word, start, end }) => ({ text: word, start: places[start], end: places[end] }));
}

// The "meaning" context of a phrase excludes its own words, so its vector is not the mean of their vectors.
async function readPhrases() {
  const read = state.read;
  const spans = read.map(({ units, meaning, phrases }, number) => {
    const places = units.map(({ start, end }) => [start, end]);
    return meaning ? places.filter(([start, end]) => end - start > 1 && !phrases.has(`${start},${end}`)) : [];
  });
  if (!spans.some((ranges) => ranges.length)) return;
  try {
    const request = { sentences: read.map(({ text }) => text), encoding_format: "base64", model: model().name };
    const response = await ask("embed", { ...request, layers: "meaning", spans }, reading.signal);
    response.sentences.forEach((sentence, number) => {
      decode(sentence).forEach(([vector], place) => read[number].phrases.set(spans[number][place].join(), vector));
    });
    if (read === state.read) refresh();
  } catch (error) {
    if (error.name !== "AbortError") tell(error);
  }
}

function refresh() {
  mixes = state.read.map(({ layers, meaning, phrases }) =>
    state.byMeaning && meaning
      ? { vectors: meaning, phrases }
      : { vectors: layers.map((vectors) => mix(vectors, state.weights, state.gamma)), phrases: new Map() },
  );
  showShares();
  shade(mixes);
  comparison = drawComparison(mixes);
  showUse(model(), comparison);
  writeAddress(language());
}

// The words to compare are in brackets; their indices are known once the model has tokenized the sentences.
async function useExample({ sentences }) {
  const marks = sentences.map(readMarked);
  state.sentences = sentences.map((text, number) => marks[number]?.text ?? text);
  [state.marks, state.isExample] = [[], true];
  drawFields(events);
  await read();
  state.marks = marks.flatMap((mark, number) => {
    const words = state.read[number]?.words ?? [];
    const inside = words.map((word, index) => [word, index]).filter(([word]) => mark && word.end > mark.start && word.start < mark.end);
    return inside.length ? [[number, inside[0][1], inside.at(-1)[1] + 1]] : [];
  });
  events.marked(null);
}

function useModel() {
  const { num_layers: numLayers } = model();
  if (state.weights.length !== numLayers) state.weights = Array(numLayers).fill(0.5);
  showAbout(model());
  drawSliders(refresh, model().has_context);
  setUpMap(model(), examplesFor(model()).senses, tell, shownMap);
}

// Choose the model for the language of the page, unless the page shows the visitor's own sentences.
function chooseModel() {
  if (state.sentences.length && !state.isExample) return;
  state.model = served.models.find(({ card }) => card.language?.startsWith(language()))?.name ?? state.model;
  byId("model").value = model()?.name ?? "";
}

// After a change of model, show its examples, or compute the visitor's sentences with it.
function startModel() {
  state.mapped = [];
  drawExamples();
  useModel();
  showTab();
  if (state.isExample) useExample(examplesFor(model()).compare[0]);
  else read();
}

function shownMap() {
  showUse(model(), comparison);
  writeAddress(language());
}

function showTab() {
  for (const name of TABS) {
    const isShown = state.tab === name;
    byId(`panel-${name}`).hidden = !isShown;
    byId(`tab-${name}`).setAttribute("aria-selected", String(isShown));
    byId(`tab-${name}`).tabIndex = isShown ? 0 : -1;
  }
  if (state.tab === "tasks") predictExample();
  if (state.tab === "senses") {
    if (!state.mapped.length) useMapExample(examplesFor(model()).senses[0]);
    showMap(model(), tell, shownMap);
  }
  showUse(model(), comparison);
}

function chooseTab(name) {
  state.tab = name;
  tell(null);
  showTab();
  writeAddress(language());
  byId(`tab-${name}`).focus();
}

// Return whether at least half of the letters are in the scripts of the model's training text.
function knows({ scripts }, text) {
  const letters = text.match(/\p{L}/gu) ?? [];
  const known = (scripts ?? []).map(scriptPattern).filter(Boolean);
  return !letters.length || !known.length || 2 * letters.filter((letter) => known.some((script) => script.test(letter))).length >= letters.length;
}

function scriptPattern(name) {
  try {
    return new RegExp(`\\p{Script=${name}}`, "u");
  } catch {
    return null; // not the name of a script
  }
}

function showScriptNote() {
  const foreign = state.sentences.find((text) => !knows(model(), text));
  byId("script-note").hidden = foreign === undefined;
  if (foreign === undefined) return;
  const better = served.models.find((candidate) => knows(candidate, foreign));
  const note = say("unfamiliarScript", { model: model().name, scripts: model().scripts.join(", ") });
  byId("script-note").textContent = better ? `${note} ${say("useModel", { name: better.name })}` : note;
}

function drawExamples() {
  const entries = examplesFor(model()).compare.map(({ name }, number) => [String(number), name]);
  options(byId("examples"), [["", say("chooseExample")], ...entries], "");
}

function drawTexts() {
  showTheme();
  if (!served.models.length) return;
  drawExamples();
  drawFields(events);
  useModel();
  setUpTasks(served.tasks, tell, () => showUse(model(), comparison));
  drawWords(events);
  refresh();
  showTab();
  showLists(model(), tell);
}

async function share() {
  writeAddress(language());
  try {
    await navigator.clipboard.writeText(location.href);
    announce(say("shared"));
    byId("share").textContent = "✓";
  } catch {
    tell(new Error(say("notShared")));
  }
  setTimeout(() => {
    byId("share").textContent = say("share");
  }, 1500);
}

function listen() {
  byId("add").onclick = () => {
    state.sentences.push("");
    drawFields(events);
    drawWords(events);
    refresh();
    byId(`sentence-${state.sentences.length - 1}`).focus();
  };
  byId("examples").onchange = ({ target }) => {
    if (target.value === "") return;
    useExample(examplesFor(model()).compare[Number(target.value)]);
    target.value = "";
  };
  byId("empty-example").onclick = () => useExample(examplesFor(model()).compare[0]);
  byId("function-words").onchange = ({ target }) => {
    state.hasFunctionWords = target.checked;
    shade(mixes);
  };
  byId("model").onchange = ({ target }) => {
    state.model = target.value;
    startModel();
  };
  byId("language").onclick = () => {
    switchLanguage();
    const before = model();
    chooseModel();
    drawTexts();
    if (model() !== before) startModel();
    writeAddress(language());
  };
  byId("theme").onclick = switchTheme;
  byId("share").onclick = share;
  for (const name of TABS) {
    byId(`tab-${name}`).onclick = () => chooseTab(name);
    byId(`tab-${name}`).onkeydown = ({ key }) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
      const shown = TABS.filter((tab) => !byId(`tab-${tab}`).hidden);
      if (step) chooseTab(shown[(shown.indexOf(name) + step + shown.length) % shown.length]);
    };
  }
  window.addEventListener("hashchange", () => location.reload());
}

async function start() {
  chooseLanguage(readAddress());
  listen();
  drawTexts();
  try {
    [served] = await Promise.all([ask("models"), loadExamples()]);
  } catch (error) {
    tell(error);
    return;
  }
  if (isLocal && state.tab === "tasks") state.tab = "meaning";
  if (isLocal) for (const id of ["api-docs", "tab-tasks"]) byId(id).hidden = true;
  if (state.model === null) chooseModel();
  options(byId("model"), served.models.map(({ name }) => [name, name]), model().name);
  byId("model-choice").hidden = served.models.length < 2;
  const isNew = !state.sentences.length;
  drawTexts();
  document.body.classList.remove("starting");
  await (isNew ? useExample(examplesFor(model()).compare[0]) : read());
}

start();
