// The page as a whole: what was typed is read by the server, what is pointed at is compared here.
import { ask } from "./api.js";
import { drawComparison } from "./chart.js";
import { byId, options } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { chooseLanguage, language, say, switchLanguage } from "./language.js";
import { drawSliders, showShares } from "./layers.js";
import { setUpLists, showLists } from "./lists.js";
import { drawFields, drawWords, shade, wordId } from "./sentences.js";
import { exists, readAddress, state, writeAddress } from "./state.js";
import { predictExample, setUpTasks } from "./tasks.js";
import { showTheme, switchTheme } from "./theme_choice.js";
import { decode, mix, show } from "./vectors.js";

const TYPING_MS = 250;
let served = { models: [], tasks: [] };
let mixes = [];
let typing = null;
let reading = new AbortController();

const events = {
  typed(number, text) {
    state.sentences[number] = text;
    clearTimeout(typing);
    typing = setTimeout(read, TYPING_MS);
  },
  removed(number) {
    state.sentences.splice(number, 1);
    state.marks = state.marks.filter(([sentence]) => sentence !== number).map(([s, w]) => [s > number ? s - 1 : s, w]);
    drawFields(events);
    read();
    byId(`sentence-${Math.min(number, state.sentences.length - 1)}`).focus();
  },
  pointed(place) {
    state.active = place ?? state.marks.at(-1) ?? null;
    const best = shade(mixes);
    if (place && document.activeElement?.id === wordId(place)) announceAlike(place, best);
  },
  marked() {
    state.active = state.marks.at(-1) ?? state.active;
    refresh();
    showLists(model(), tell);
  },
};

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

function announceAlike([sentence, word], best) {
  const name = ([s, w]) => state.read[s].words[w].text;
  const list = best.slice(0, 3).map(({ place, alike }) => `${name(place)} ${show(alike)}`).join(", ");
  if (list) announce(say("mostAlike", { word: name([sentence, word]), list }));
}

async function read() {
  reading.abort();
  reading = new AbortController();
  writeAddress(language());
  if (!state.sentences.some((text) => text.trim())) {
    tell(new Error(say("empty")));
    return;
  }
  showScriptNote();
  announce(say("reading"));
  try {
    const segments = state.sentences.map(segment);
    const given = state.sentences.map((text, number) => segments[number]?.map((word) => word.text) ?? text);
    const asked = { sentences: given, encoding_format: "base64", model: model().name };
    const kinds = model().has_context ? ["all", "meaning"] : ["all"];
    const [all, meaning] = await Promise.all(kinds.map((layers) => ask("embed", { ...asked, layers }, reading.signal)));
    state.read = all.sentences.map((sentence, number) => ({
      given: given[number],
      text: state.sentences[number],
      words: segments[number] ?? toCodeUnits(state.sentences[number], sentence.words),
      layers: decode(sentence),
      meaning: meaning ? decode(meaning.sentences[number]).map(([vector]) => vector) : null,
    }));
    state.marks = state.marks.filter(exists);
    state.active = state.marks.at(-1) ?? null;
    tell(null);
    drawWords(events);
    refresh();
    announce(say("read", { count: state.read.reduce((sum, { words }) => sum + words.length, 0) }));
    showLists(model(), tell);
  } catch (error) {
    if (error.name !== "AbortError") tell(error);
  }
}

// A model of characters gets whole words, as the browser finds them in scripts without spaces, and averages their
// characters; null: the server splits the text.
function segment(text) {
  if (model().units !== "characters" || !("Segmenter" in Intl)) return null;
  const found = [...new Intl.Segmenter(undefined, { granularity: "word" }).segment(text)];
  return found
    .filter(({ segment: word }) => word.trim())
    .map(({ segment: word, index }) => ({ text: word, start: index, end: index + word.length }));
}

// The server counts characters, JavaScript counts halves of the rarer ones.
function toCodeUnits(text, words) {
  const places = [0];
  for (const letter of text) places.push(places.at(-1) + letter.length);
  return words.map(({ text: word, start, end }) => ({ text: word, start: places[start], end: places[end] }));
}

function refresh() {
  mixes = state.read.map(({ layers, meaning }) =>
    state.byMeaning && meaning ? meaning : layers.map((vectors) => mix(vectors, state.weights, state.gamma)),
  );
  showShares();
  shade(mixes);
  drawComparison(mixes, model()?.name);
  writeAddress(language());
}

function useExample({ sentences, word }) {
  state.sentences = [...sentences];
  const place = (text) => text.slice(0, text.indexOf(word)).split(/\s+/).length - 1;
  const isHan = /\p{Script=Han}/u.test(word);
  const inWords = (text) => segment(text)?.findIndex(({ end }) => end > text.indexOf(word));
  state.marks = sentences.map((text, number) => [number, isHan ? (inWords(text) ?? text.indexOf(word)) : place(text)]);
  drawFields(events);
}

function useModel() {
  const { num_layers: numLayers } = model();
  if (state.weights.length !== numLayers) state.weights = Array(numLayers).fill(0.5);
  const { name, dim } = model();
  byId("model-info").textContent = say("modelInfo", { name, dim, layers: numLayers });
  drawSliders(refresh, model().has_context);
  setUpLists(model(), () => showLists(model(), tell));
}

function showTab() {
  const isTasks = state.tab === "tasks" && served.tasks.length > 0;
  byId("panel-meaning").hidden = isTasks;
  byId("panel-tasks").hidden = !isTasks;
  for (const name of ["meaning", "tasks"]) {
    const isShown = isTasks === (name === "tasks");
    byId(`tab-${name}`).setAttribute("aria-selected", String(isShown));
    byId(`tab-${name}`).tabIndex = isShown ? 0 : -1;
  }
  if (isTasks) predictExample();
}

function chooseTab(name) {
  state.tab = name;
  showTab();
  writeAddress(language());
  byId(`tab-${name}`).focus();
}

// Text in a script that the model has hardly seen gets vectors that mean little.
function isFamiliar(text) {
  const letters = text.match(/\p{L}/gu) ?? [];
  const scripts = model()?.scripts ?? [];
  if (!letters.length || !scripts.length) return true;
  const known = new RegExp(scripts.map((script) => `\\p{Script=${script}}`).join("|"), "u");
  return 2 * letters.filter((letter) => known.test(letter)).length >= letters.length;
}

// A model of characters has seen Latin letters too, but its examples are in its own script.
function isFitting(text) {
  const isHan = /\p{Script=Han}/u.test(text);
  return isFamiliar(text) && (model()?.units !== "characters" || isHan);
}

function showScriptNote() {
  const isStrange = !isFamiliar(state.sentences.join(" "));
  byId("script-note").hidden = !isStrange;
  const scripts = (model().scripts ?? []).join(", ");
  byId("script-note").textContent = isStrange ? say("unfamiliarScript", { model: model().name, scripts }) : "";
}

function drawExamples() {
  const fitting = [...EXAMPLES.entries()].filter(([, { sentences }]) => isFitting(sentences.join(" ")));
  const entries = [["", say("chooseExample")], ...fitting.map(([number, { name }]) => [String(number), name])];
  options(byId("examples"), entries, "");
}

function drawTexts() {
  showTheme();
  drawExamples();
  if (!served.models.length) return;
  drawFields(events);
  drawWords(events);
  useModel();
  refresh();
  setUpTasks(served.tasks, tell);
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
    useExample(EXAMPLES[Number(target.value)]);
    target.value = "";
    read();
  };
  byId("model").onchange = ({ target }) => {
    state.model = target.value;
    useModel();
    read();
  };
  byId("language").onclick = () => {
    switchLanguage();
    writeAddress(language());
    drawTexts();
  };
  byId("theme").onclick = switchTheme;
  byId("share").onclick = share;
  for (const name of ["meaning", "tasks"]) {
    byId(`tab-${name}`).onclick = () => chooseTab(name);
    byId(`tab-${name}`).onkeydown = ({ key }) => {
      if (key === "ArrowLeft" || key === "ArrowRight") chooseTab(name === "tasks" ? "meaning" : "tasks");
    };
  }
  window.addEventListener("hashchange", () => location.reload());
}

async function start() {
  chooseLanguage(readAddress());
  listen();
  drawTexts();
  try {
    served = await ask("models");
  } catch (error) {
    tell(error);
    return;
  }
  options(byId("model"), served.models.map(({ name }) => [name, name]), model().name);
  byId("model-choice").hidden = served.models.length < 2;
  document.querySelector(".tabs").hidden = !served.tasks.length;
  drawExamples();
  const first = EXAMPLES.find(({ sentences }) => isFitting(sentences.join(" ")));
  if (!state.sentences.length) useExample(first ?? EXAMPLES[0]);
  drawFields(events);
  useModel();
  setUpTasks(served.tasks, tell);
  showTab();
  await read();
}

start();
