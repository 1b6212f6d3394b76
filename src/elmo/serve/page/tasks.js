// The tab of trained tasks: input fields for each family, and predictions as colored text.
import { ask } from "./api.js";
import { byId, make, options } from "./dom.js";
import { language, say } from "./language.js";
import { help } from "./lists.js";

const HUES = 8;
const FIELDS = {
  tagging: [["text", "Ann Lee went to New York with Google in May"]],
  classification: [["text", "A warm and funny film, one of the best of the year"]],
  pairs: [["firstText", "A man plays a guitar"], ["secondText", "Somebody makes music"]],
  relations: [["relationText", "The <e1>arm</e1> of the <e2>chair</e2> is broken"]],
  question_answering: [["question", "Where did she go?"], ["passage", "In May she went to Rome by train."]],
  senses: [["senseText", "I sat by the [bank] of the river"], ["lemma", "bank"], ["pos", "NOUN"]],
};
// Examples for word-level tags (not entities), and for Chinese taggers.
const WORD_TAGS_EXAMPLE = "The old man walked slowly along the quiet river";
const CHINESE_EXAMPLES = { entities: "五月，李明从北京大学去了上海的谷歌公司", words: "老人沿着安静的河边慢慢地走" };
const SPAN_TAG = /^[BIELSU]-/;
const HOW_TO_TRAIN = "elmo task train pos --train train.conllu --dev dev.conllu --output tagger\nelmo serve --task tagger";
let tasks = [];
let lastRequest = null; // the last task and item

export function lastTaskRequest() {
  return lastRequest;
}

let changed = () => {};

export function setUpTasks(served, report, whenAsked) {
  tasks = served;
  changed = whenAsked;
  byId("task-choice").hidden = !tasks.length;
  if (!tasks.length) byId("task-answer").replaceChildren(...help("noTasks", HOW_TO_TRAIN));
  const select = byId("task");
  const first = tasks.find(({ name }) => name.startsWith(`${language()}-`)) ?? tasks[0];
  options(select, tasks.map((task) => [task.name, `${task.name} · ${task.family}`]), select.value || first?.name);
  select.onchange = () => {
    drawForm(report);
    predictExample();
  };
  if (tasks.length) drawForm(report);
}

function chosen() {
  return tasks.find((task) => task.name === byId("task").value) ?? tasks[0];
}

function drawForm(report) {
  const task = chosen();
  const form = byId("task-form");
  const kept = new Map([...form.querySelectorAll("[name]")].map((field) => [`${form.dataset.example} ${field.name}`, field.value]));
  const fields = FIELDS[task.family].map(([name, example]) => {
    const field = make("textarea", { name, rows: name === "passage" ? 4 : 1, required: true });
    field.value = kept.get(`${exampleOf(task)} ${name}`) ?? exampleOf(task) ?? example;
    return make("label", {}, say(name), field);
  });
  form.dataset.example = exampleOf(task);
  form.replaceChildren(...fields, make("button", { class: "main", type: "submit" }, say("run")));
  form.onsubmit = (event) => {
    event.preventDefault();
    predict(task, [...form.querySelectorAll("[name]")].map((field) => field.value.trim()), report);
  };
  byId("task-answer").replaceChildren();
}

// Show the predictions for an example when the tab is first opened.
export function predictExample() {
  if (tasks.length && !byId("task-answer").hasChildNodes()) byId("task-form").requestSubmit();
}

// Return the example text for a tagger; examples for other families are in FIELDS.
function exampleOf(task) {
  if (task.family !== "tagging") return undefined;
  if (task.name.startsWith("zh-")) return CHINESE_EXAMPLES[tagsWords(task) ? "words" : "entities"];
  return tagsWords(task) ? WORD_TAGS_EXAMPLE : FIELDS.tagging[0][1];
}

function tagsWords({ family, labels }) {
  return family === "tagging" && !labels.some((label) => SPAN_TAG.test(label));
}

async function predict(task, values, report) {
  lastRequest = { name: task.name, source: task.source, item: toItem(task, values) };
  changed();
  try {
    const { predictions } = await ask(`tasks/${encodeURIComponent(task.name)}`, { items: [lastRequest.item] });
    byId("task-answer").replaceChildren(SHOW[task.family](predictions[0], values, task));
    report(null);
  } catch (error) {
    report(error);
  }
}

function toItem({ family }, values) {
  if (family !== "senses") return values.length > 1 ? values : values[0];
  const [text, lemma, pos] = values;
  const words = text.split(/\s+/);
  const place = Math.max(0, words.findIndex((word) => /^\[.*\]/.test(word)));
  return [words.map((word) => word.replace(/^\[(.*)\]/, "$1")), [[place, place + 1, lemma, pos]]];
}

function showTags({ tags, spans, offsets }, [text], task) {
  const pieces = tagsWords(task) ? tags.map((type, index) => ({ type, start: index, end: index + 1 })) : spans;
  if (!pieces.length) return make("p", { class: "tagged" }, text, make("br"), make("small", { class: "hint" }, say("noTags")));
  const letters = [...text]; // offsets count code points, not UTF-16 code units
  const cut = (from, to) => letters.slice(from, to).join("");
  const parts = [];
  let end = 0;
  for (const piece of pieces) {
    const [from, to] = [offsets[piece.start][0], offsets[piece.end - 1][1]];
    parts.push(cut(end, from), entity(cut(from, to), piece.type, task));
    end = to;
  }
  return make("p", { class: "tagged" }, ...parts, cut(end));
}

function entity(text, type, task) {
  const types = [...new Set(task.labels.map((label) => label.replace(SPAN_TAG, "")))].sort();
  return make("span", { class: `entity hue-${Math.max(0, types.indexOf(type)) % HUES}` }, text, make("small", {}, type));
}

function showLabel({ label, probabilities, score }) {
  if (score !== undefined) return make("p", { class: "tagged" }, `${say("score")}: ${score.toFixed(2)}`);
  const ranked = Object.entries(probabilities).sort(([, a], [, b]) => b - a).slice(0, 8);
  const rows = ranked.map(([name, share]) =>
    make(
      "li",
      { class: "bar-row" },
      make("span", { class: "bar-word" }, name),
      make("span", { class: "track", "aria-hidden": "true" }, make("span", { class: "fill", "--share": share.toFixed(4) })),
      make("span", { class: "share" }, `${(100 * share).toFixed(1)} %`),
    ),
  );
  return make("div", { class: "side-a" }, make("p", { class: "tagged" }, label), make("ol", { class: "ranks" }, ...rows));
}

function showAnswer({ text, start, probability }, [, passage]) {
  const letters = [...passage];
  const end = start + [...text].length;
  return make(
    "p",
    { class: "tagged" },
    letters.slice(0, start).join(""),
    make("span", { class: "entity hue-0" }, text, make("small", {}, `${say("answer")} · ${(100 * probability).toFixed(0)} %`)),
    letters.slice(end).join(""),
  );
}

function showSense({ keys }) {
  return make("p", { class: "tagged" }, keys[0] ?? say("unknownSense"));
}

const SHOW = {
  tagging: showTags,
  classification: showLabel,
  pairs: showLabel,
  relations: showLabel,
  question_answering: showAnswer,
  senses: showSense,
};
