// "Use this": code in Python and curl that reproduces the results on the page.
import { isLocal, needsKey, serverAddress } from "./api.js";
import { byId, make } from "./dom.js";
import { say } from "./language.js";
import { SHOWN_SUBSTITUTES } from "./lists.js";
import { shownSenses } from "./map.js";
import { state } from "./state.js";
import { lastTaskRequest } from "./tasks.js";
import { recall, remember } from "./storage.js";
import { shares } from "./vectors.js";

const NAMES = { python: "Python", curl: "curl", javascript: "JavaScript" };
const KINDS = ["python", isLocal ? "javascript" : "curl"];
const CHOICE = "elmo-code";
let model = null;
let shown = { python: "", curl: "" };

export function showUse(shownModel, comparison) {
  model = shownModel;
  const views = { meaning: () => useMeaning(comparison), senses: useSenses, tasks: useTask };
  shown = { ...views[state.tab](), javascript: useJavaScript(comparison) };
  const kind = KINDS.includes(recall(CHOICE)) ? recall(CHOICE) : "python";
  byId("use-kinds").replaceChildren(
    ...KINDS.map((name) =>
      make(
        "button",
        {
          class: "quiet",
          type: "button",
          "aria-pressed": String(name === kind),
          onclick: () => {
            remember(CHOICE, name);
            showUse(model, comparison);
          },
        },
        NAMES[name],
      ),
    ),
  );
  byId("code").textContent = shown[kind];
  byId("copy-code").onclick = () => copy(shown[kind]);
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    byId("status").textContent = say("codeCopied");
    byId("copy-code").textContent = say("copied");
  } catch {
    const range = document.createRange();
    range.selectNodeContents(byId("code"));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    byId("status").textContent = say("codeSelected");
    byId("copy-code").textContent = say("codeSelected");
  }
  setTimeout(() => {
    byId("copy-code").textContent = say("copyCode");
  }, 1500);
}

function useMeaning(comparison) {
  const texts = state.sentences.filter((text) => text.trim());
  if (!comparison) {
    return {
      python: [...opening("Elmo"), "vectors = model.embed([", ...list(texts), "])  # " + say("codeEmbed")].join("\n"),
      curl: request("embed", { sentences: texts, model: model.name }),
    };
  }
  const [a, b] = state.marks.map(marked);
  const weights = shares(state.weights).map((share) => Number(share.toFixed(4)));
  const layers = comparison.kind === "meaning" ? "meaning" : weights;
  const byIndex = a.index || b.index;
  const embedSpan = ([sentence, start, end]) =>
    `model.embed_spans(${JSON.stringify(state.read[sentence].text)}, [(${start}, ${end})], layers=${python_(layers)})`;
  const compared = byIndex
    ? state.marks.map(embedSpan)
    : [JSON.stringify(a.sentence), JSON.stringify(b.sentence), `layers=${python_(layers)}`];
  // The model in the page has fewer words than the one in Python.
  const cosine = isLocal ? `≈ ${comparison.cosine.toFixed(2)}` : comparison.cosine.toFixed(3);
  const python = [
    ...opening("Elmo"),
    "model.similarity(",
    ...compared.map((line) => `    ${line},`),
    `)${byIndex ? ".item()" : ""}  # ${cosine}`,
  ];
  const body = { sentence_a: a.sentence, sentence_b: b.sentence, layers, model: model.name };
  const curl = [request("similarity", body)];
  const single = state.marks.find(([, start, end]) => end === start + 1);
  if (model.predicts_words && single) {
    const { sentence, index } = marked(single);
    const place = index ? `, ${index[0]}` : "";
    python.push("", `model.substitutes(${JSON.stringify(sentence)}${place}, top_k=${SHOWN_SUBSTITUTES})`);
    curl.push(request("substitutes", { sentence, ...(index ? { index: index[0] } : {}), top_k: SHOWN_SUBSTITUTES, model: model.name }));
  }
  return { python: python.join("\n"), curl: byIndex ? curl.slice(1).join("\n\n") : curl.join("\n\n") };
}

// Return code for the page without a server, whose folder contains elmo.js.
function useJavaScript(comparison) {
  const lines = [
    `import { Elmo } from ${JSON.stringify(`${serverAddress()}page/elmo.js`)};`,
    "",
    `const model = await Elmo.load(${JSON.stringify(serverAddress() + model.folder)});`,
  ];
  if (!comparison) return [...lines, `await model.embed(${JSON.stringify(state.sentences.filter((text) => text.trim()))});`].join("\n");
  const [a, b] = state.marks.map(marked);
  if (!a.index && !b.index) lines.push(`await model.similarity(${JSON.stringify(a.sentence)}, ${JSON.stringify(b.sentence)});`);
  if (model.predicts_words && !a.index) lines.push(`await model.substitutes(${JSON.stringify(a.sentence)}, { topK: ${SHOWN_SUBSTITUTES} });`);
  return lines.join("\n");
}

function useSenses() {
  const senseMap = shownSenses();
  const sentences = senseMap?.sentences ?? ["I went to the [bank] to deposit money", "…"];
  const count = state.numSenses ? `, num_senses=${Math.min(state.numSenses, sentences.length)}` : "";
  const names = senseMap ? [`  # ${senseMap.senses.map(({ words }) => words.join(", ")).join(" | ")}`] : [""];
  return {
    python: [
      ...opening("Elmo, analysis"),
      "senses = analysis.map_senses(model, [",
      ...list(sentences),
      `]${count})`,
      `senses.names${names[0]}`,
      'analysis.draw_senses(senses, "senses.png")',
    ].join("\n"),
    curl: request("senses", { sentences, ...(state.numSenses ? { num_senses: Math.min(state.numSenses, sentences.length) } : {}), model: model.name }),
  };
}

function useTask() {
  const task = lastTaskRequest();
  if (!task) {
    const python = ["from elmo import tasks", "", 'tasks.train("train.conllu", kind="pos", output="tagger")', 'tasks.load("tagger").predict(["The old man walked"])'];
    return { python: python.join("\n"), curl: request("tasks/tagger", { items: ["The old man walked"] }) };
  }
  const python = ["from elmo import tasks", "", `task = tasks.load(${JSON.stringify(task.source ?? `path/to/${task.name}`)})`, `task.predict([${python_(task.item)}])`];
  return { python: python.join("\n"), curl: request(`tasks/${encodeURIComponent(task.name)}`, { items: [task.item] }) };
}

function opening(names) {
  const source = model.source ?? `path/to/${model.name}`;
  return [`from elmo import ${names}`, "", `model = Elmo.from_pretrained(${JSON.stringify(source)})`];
}

function list(texts) {
  return texts.map((text) => `    ${JSON.stringify(text)},`);
}

// JSON of strings, numbers and lists is valid Python.
function python_(value) {
  return JSON.stringify(value, null, 1).replace(/\n\s*/g, " ").replace(/\[ /g, "[").replace(/ \]/g, "]");
}

// Return a sentence with its mark in brackets, or with an index if the text contains brackets.
function marked([sentence, start, end]) {
  const { text, words } = state.read[sentence];
  if (/[[\]]/.test(text)) return { sentence: text, index: [start, end] };
  const [from, to] = [words[start].start, words[end - 1].end];
  return { sentence: `${text.slice(0, from)}[${text.slice(from, to)}]${text.slice(to)}`, index: null };
}

function request(path, body) {
  const key = needsKey() ? ' -H "Authorization: Bearer $ELMO_KEY"' : "";
  const data = JSON.stringify(body).replaceAll("'", "'\\''");
  return `curl ${serverAddress()}${path}${key} -d '${data}'`;
}

