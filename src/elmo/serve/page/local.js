// Compute the server's responses in the browser with elmo.js, for the page that `elmo page` writes.
import { Elmo, ElmoError } from "./elmo.js";
import { say } from "./language.js";

const SECONDS_FOR_WORKER = 3;
const models = new Map(); // name -> promise of the model
const files = new Map(); // name and file -> [loaded, total] of files being loaded
let entries = [];
let answers = {};
let report = () => {};

// Read the list of models and the precomputed answers; `whenLoading(share)` receives the loaded fraction of the files.
export async function open(address, whenLoading) {
  report = whenLoading;
  const read = async (url) => (await fetch(url)).json();
  const [served, kept] = await Promise.all([read(address), read(new URL("answers.json", new URL(address, document.baseURI)))]);
  [entries, answers] = [served.models, kept];
  await startWorker();
  return served;
}

// Models are loaded once the service worker can cache them; a worker that starts later gets a list of files to cache.
async function startWorker() {
  if (!navigator.serviceWorker) return;
  const controlled = new Promise((resolve) => {
    if (navigator.serviceWorker.controller) resolve();
    navigator.serviceWorker.addEventListener("controllerchange", resolve, { once: true });
    setTimeout(() => {
      isLate = !navigator.serviceWorker.controller;
      resolve();
    }, 1000 * SECONDS_FOR_WORKER);
  });
  navigator.serviceWorker.addEventListener("controllerchange", keepLoaded);
  ready = navigator.serviceWorker.register("offline.js").then(() => controlled, () => {});
}

function keepLoaded() {
  const addresses = performance.getEntriesByType("resource").map(({ name }) => name);
  const loaded = addresses.filter((address) => address.startsWith(location.origin));
  if (isLate) navigator.serviceWorker.controller?.postMessage({ keep: loaded });
}

let isLate = false;
let ready = Promise.resolve();

export function openModel(name) {
  if (!models.has(name)) {
    const { folder } = entries.find((entry) => entry.name === name);
    const opening = ready.then(() =>
      Elmo.load(folder, { onProgress: ({ file, loaded, total }) => show(`${name}/${file}`, loaded, total) }));
    models.set(name, opening);
    opening.catch(() => models.delete(name));
  }
  return models.get(name);
}

function show(file, loaded, total) {
  files.set(file, [loaded, total]);
  const [done, all] = [...files.values()].reduce(([a, b], [c, d]) => [a + c, b + d], [0, 0]);
  if (done >= all) files.clear();
  report(done / all);
}

export async function answer(path, body) {
  const name = body.model ?? entries[0].name;
  const result = await (ANSWERS[path] ?? refuse)(body, answers[name] ?? {}, name);
  keepLoaded();
  return { model: name, ...result };
}

function refuse() {
  throw new ElmoError(say("needsServer"));
}

const ANSWERS = {
  async embed({ sentences, layers, spans }, precomputed, name) {
    const kept = sentences.map((text) => precomputed.embed?.[layers]?.[text]);
    if (!spans && kept.every(Boolean)) {
      openModel(name).catch(() => {}); // it will be needed
      return { sentences: kept.map(({ words, shape, half }) => ({ words, shape, values: toFloats(half) })) };
    }
    const model = await openModel(name);
    const results = await model.embed(sentences, { layers, spans });
    return {
      sentences: results.map(({ words, shape, data }, number) => ({ words: toCharacters(sentences[number], words), shape, values: data })),
    };
  },

  async substitutes({ sentence, index, top_k: topK }, precomputed, name) {
    const kept = precomputed.substitutes?.[`${sentence}\n${index ?? ""}`];
    if (kept) return { substitutes: kept };
    const substitutes = await (await openModel(name)).substitutes(sentence, { index, topK });
    return { substitutes: substitutes.map(({ word, logProbability }) => ({ word, log_probability: logProbability })) };
  },

  async senses({ sentences, num_senses: count }, precomputed) {
    return precomputed.senses?.[[...sentences, count].join("\n")] ?? refuse();
  },
};

// Convert offsets to code points, which the server uses.
function toCharacters(text, words) {
  const places = new Map([[0, 0]]);
  let [units, count] = [0, 0];
  for (const letter of text) {
    units += letter.length;
    places.set(units, (count += 1));
  }
  return words.map(({ text: word, start, end }) => ({ text: word, start: places.get(start), end: places.get(end) }));
}

// Decode little-endian 16-bit floats in base64.
function toFloats(base64) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const bits = new Uint16Array(bytes.buffer);
  return Float32Array.from(bits, (value) => {
    const exponent = (value >> 10) & 31, fraction = value & 1023;
    const size = exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction;
    return value & 0x8000 ? -size : size;
  });
}
