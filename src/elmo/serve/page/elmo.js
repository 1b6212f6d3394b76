/**
 * elmo.js: the language models of modern-elmo in a browser or in Node.js, without a server.
 *
 *   import { Elmo } from "./elmo.js";
 *   const model = await Elmo.load("en-small/");
 *   const { words, shape, data } = await model.embed("I went to the bank");
 *
 * It reads a model folder written by Python and runs the C kernels of the package as WebAssembly (elmo.wasm, next to
 * this file): the vectors equal those of `Elmo.from_pretrained(…, precision="int8")`. One thread, no dependencies.
 * elmo.d.ts describes every function.
 */

/** An error caused by the caller; the message names the value, the rule and the fix. */
export class ElmoError extends Error {
  name = "ElmoError";
}

/* ---- text -> words, by the same rules as elmo/text/tokenize.py ---- */

const ABBREVIATIONS = `
  Mr Mrs Ms Mx Messrs Dr Drs Prof Rev Hon Pres Gov Sen Rep Reps Supt Fr Sr Jr Esq Ph
  Adm Brig Capt Cmdr Col Cpl Gen Lt Maj Pvt Sgt St Mt Ft Ave Blvd Rd Hwy
  Inc Ltd Corp Co Bros Dept Univ Assn Bldg
  vs v etc cf ca al approx ed eds resp incl viz`;
const ABBREVIATIONS_BEFORE_NUMBERS = `
  No Nos Nr Vol Vols vol vols p pp Fig Figs fig Eq eq Ch ch Sec sec Art Op c est
  Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec`;
const MORE_LETTERS = { Hiragana: "\\u30FC", Katakana: "\\u30FC\\uFF70" };
const APOSTROPHE = "['’]";
const SPACE = "\\p{White_Space}\\x1C-\\x1F";

/** Return the regular expression of one word; each letter of the given scripts is a separate word. */
function wordPattern(scripts) {
  let groups = 0;
  // JavaScript has no possessive quantifiers: a lookahead never backtracks, and its group is then consumed.
  const atomic = (pattern) => `(?=(?<p${++groups}>${pattern}))\\k<p${groups}>`;
  const alone = scripts.map((script) => `\\p{Script=${script}}${MORE_LETTERS[script] ?? ""}`).join("");
  const letters = "\\p{L}\\p{Nl}\\p{M}\\u00AD\\u200C\\u200D";
  const without = (set) => (alone ? `[[${set}]&&[^${alone}]]` : `[${set}]`);
  const alpha = without(letters);
  const alnum = without(`${letters}\\p{Nd}`);
  const plain = () => `${atomic(`${alnum}+`)}(?=[${SPACE};\\)!?]|,[${SPACE}])|,(?=[${SPACE}])`;

  const outside = `${SPACE}<>"“”«»\\(\\)。、，「」（）`;
  const closing = `[.,;:!?'’…\\]\\}]{0,9}(?:[${outside}]|$)`;
  const scheme = "(?:[hH][tT][tT][pP][sS]?:\\/\\/|[fF][tT][pP]:\\/\\/|[wW][wW][wW]\\.)";
  const url = scheme + atomic(`(?:(?!${closing})[^${outside}]|\\(${atomic(`[^${SPACE}\\(\\)]*`)}\\))+`);
  const host = () => atomic(`[${alnum}\\-]+`);
  const email = `${alnum}${atomic(`[${alnum}._%+\\-]{0,63}`)}@${host()}${atomic(`(?:\\.${host()})+`)}`;

  const clitic =
    `(?<=[\\p{L}\\p{M}])${APOSTROPHE}(?=\\p{L})${atomic(`(?:\\p{L}${APOSTROPHE}(?=\\p{L}))?`)}` +
    `|(?<=[\\p{Nd}.\\)\\]"”%])${APOSTROPHE}(?=s(?!${alnum}))`;
  const lead = "-(?!-)|(?<!\\.)\\.(?=[\\p{L}\\p{Nd}])";
  const joiner = "(?:[.`·׳״՚-՟‐‑]|\\.?-(?!-)|(?<=\\p{Nd}),(?=\\p{Nd}))";
  const core = () => atomic(`${alnum}+`) + atomic(`(?:${joiner}${atomic(`${alnum}+`)})*`);
  const word =
    `${atomic(`(?:${clitic}|${lead})?`)}(?:${abbreviation(alpha, alnum, atomic)}|${core()})${atomic("(?:-(?!-))?")}`;

  const flag = "[\\u{1F1E6}-\\u{1F1FF}]{2}";
  const tail = () => atomic("[\\p{M}\\u{1F3FB}-\\u{1F3FF}\\u{E0020}-\\u{E007F}]*");
  const symbol = `(?:${flag}|[^${SPACE}])${tail()}${atomic(`(?:\\u200D[^${SPACE}]${tail()})*`)}`;
  const words = [plain(), url, email, word, `\\.${atomic("\\.+")}`, `-${atomic("-+")}`, symbol].join("|");
  return new RegExp(`(?![${SPACE}])(?:${words})`, "gv");
}

function abbreviation(alpha, alnum, atomic) {
  const list = (words) => words.trim().split(/\s+/).join("|");
  const textEnds = `\\.${atomic("[\"'’”\\)\\]]*")}${atomic(`[${SPACE}]*`)}$`;
  const patterns = [
    "(?:\\p{L}{1,2}\\.)+\\p{L}{1,4}",
    `\\p{Lu}${atomic("\\p{M}*")}`,
    `(?:${list(ABBREVIATIONS)})(?!${textEnds})`,
    `(?:${list(ABBREVIATIONS_BEFORE_NUMBERS)})(?=\\.${atomic(`[${SPACE}]*`)}\\p{Nd})`,
    `\\p{Lu}${alpha}{0,4}(?=\\.${atomic(`[${SPACE}]+`)}\\p{Ll})`,
  ];
  const before = atomic(`(?:${atomic(`(?:${atomic(`${alnum}+`)}${atomic("\\.?")})+`)}-)*`);
  return `${before}(?:${patterns.join("|")})\\.(?!\\.|-?${alnum})`;
}

const patterns = new Map(); // by scripts

/** Return the words of a text with their offsets, [{text, start, end}], in UTF-16 code units. */
export function tokenize(text, scripts = ["Han"]) {
  if (typeof text !== "string") throw new ElmoError(`The text is of type ${typeof text}; give a string.`);
  const key = scripts.join();
  if (!patterns.has(key)) patterns.set(key, wordPattern(scripts));
  return Array.from(text.matchAll(patterns.get(key)), ({ 0: word, index }) => ({
    text: word,
    start: index,
    end: index + word.length,
  }));
}

const MARKS = /\[([^[\]]+)\]|【([^【】]+)】|［([^［］]+)］/g;
const CORNER_MARK = /「([^「」]+)」/g;

/** Return the text without the brackets around its marked word, and the character range of the word. */
export function readMarked(sentence) {
  let marks = [...sentence.matchAll(MARKS)];
  if (!marks.length) marks = [...sentence.matchAll(CORNER_MARK)];
  if (marks.length !== 1) {
    throw new ElmoError(
      `The sentence ${JSON.stringify(sentence)} has ${marks.length} marked words; put exactly one in brackets, as in ` +
        '"I went to the [bank]", or choose the word by its index.',
    );
  }
  const [{ 0: mark, index }] = marks;
  const text = sentence.slice(0, index) + mark.slice(1, -1) + sentence.slice(index + mark.length);
  return { text, start: index, end: index + mark.length - 2 };
}

const isPunctuation = (word) => !/[\p{L}\p{N}]/u.test(word);
const isClitic = (word) => /^['’]/.test(word) && !isPunctuation(word);

/* ---- files ---- */

const TYPES = { F32: Float32Array, F16: Uint16Array, I8: Int8Array, I32: Int32Array };

/** Return the arrays of a safetensors file by name: Map of {dtype, shape, data}. */
export function readSafetensors(buffer) {
  const headerSize = Number(new DataView(buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, headerSize)));
  delete header.__metadata__;
  const arrays = new Map();
  for (const [name, { dtype, shape, data_offsets: [start, end] }] of Object.entries(header)) {
    if (!(dtype in TYPES)) throw new ElmoError(`${name} is stored as ${dtype}; F32, F16 and I8 can be read.`);
    const bytes = buffer.slice(8 + headerSize + start, 8 + headerSize + end); // a copy is aligned
    arrays.set(name, { dtype, shape, data: new TYPES[dtype](bytes) });
  }
  return arrays;
}

let halves = null; // the values of all 16-bit floats

function readHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction);
}

/** Return an array of a safetensors file as Float32Array; int8 rows are scaled with the array `name.scale`. */
function floatsOf(arrays, name) {
  const { dtype, shape, data } = arrays.get(name) ?? missing(name);
  if (dtype === "F32") return data;
  if (dtype === "F16") {
    halves ??= Float32Array.from({ length: 65536 }, (_, bits) => readHalf(bits));
    return Float32Array.from(data, (bits) => halves[bits]);
  }
  const scales = floatsOf(arrays, `${name}.scale`), size = data.length / shape[0];
  const values = new Float32Array(data.length);
  for (let i = 0; i < data.length; i++) values[i] = data[i] * scales[Math.floor(i / size)];
  return values;
}

function missing(name) {
  throw new ElmoError(`${name} is missing from the model; copy its folder again.`);
}

/** Return int8 rows with one scale per row: {bytes, scales}. */
function bytesOf(arrays, name) {
  const { dtype, shape, data } = arrays.get(name) ?? missing(name);
  if (dtype === "I8") return { bytes: data, scales: floatsOf(arrays, `${name}.scale`), numRows: shape[0], size: shape[1] };
  return quantize(floatsOf(arrays, name), shape[1]);
}

const TINY = 1.1754943508222875e-38;
const SMALLEST_PEAK = 1e-30; // of a row of zeros, so that no scale is zero

function quantize(values, size) {
  const numRows = values.length / size, bytes = new Int8Array(values.length), scales = new Float32Array(numRows);
  for (let row = 0, start = 0; row < numRows; row++, start += size) {
    let peak = SMALLEST_PEAK;
    for (let i = start; i < start + size; i++) peak = Math.max(peak, Math.abs(values[i]));
    const scale = (scales[row] = Math.fround(Math.fround(peak) / 127));
    for (let i = start; i < start + size; i++) bytes[i] = roundToEven(Math.fround(values[i] / scale));
  }
  return { bytes, scales, numRows, size };
}

function roundToEven(value) {
  const rounded = Math.round(value);
  return rounded - value === 0.5 && rounded % 2 !== 0 ? rounded - 1 : rounded;
}

/** The files of a model folder, from the web or, in node, from the disk. */
class Folder {
  constructor(source, onProgress) {
    this.sizes = null; // name -> bytes, if config.json lists the files; no others are requested then
    this.onProgress = onProgress ?? (() => {});
    const text = String(source);
    this.base = new URL(text.endsWith("/") ? text : `${text}/`, baseAddress());
  }

  /** Return the bytes of a file; null if it is optional and missing. */
  async read(name, { optional = false } = {}) {
    if (this.sizes && !(name in this.sizes)) return optional ? null : missing(name);
    return this.#open(name, optional);
  }

  async lines(name, options) {
    const isCompressed = this.sizes && `${name}.gz` in this.sizes;
    let bytes = await this.read(isCompressed ? `${name}.gz` : name, options);
    if (bytes === null) return null;
    if (isCompressed) bytes = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
    const lines = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes).split("\n");
    if (lines.at(-1) === "") lines.pop();
    return lines;
  }

  async #open(name, optional) {
    const url = new URL(name, this.base);
    if (url.protocol === "file:") return readFile(url, optional);
    let response;
    try {
      response = await fetch(url);
    } catch (error) {
      throw new ElmoError(`${url} could not be loaded (${error.message}); check the connection.`);
    }
    if (!response.ok) {
      if (optional && response.status === 404) return null;
      throw new ElmoError(`${url} could not be loaded: HTTP ${response.status}; check the address of the model.`);
    }
    const total = this.sizes?.[name] ?? Number(response.headers.get("Content-Length") ?? 0);
    const chunks = [], reader = response.body.getReader();
    let loaded = 0;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      chunks.push(value);
      loaded += value.length;
      this.onProgress({ file: name, loaded, total: Math.max(total, loaded) });
    }
    const bytes = new Uint8Array(loaded);
    let place = 0;
    for (const chunk of chunks) {
      bytes.set(chunk, place);
      place += chunk.length;
    }
    return bytes.buffer;
  }
}

function baseAddress() {
  if (typeof document !== "undefined") return document.baseURI;
  if (typeof location !== "undefined") return location.href;
  return `file://${globalThis.process?.cwd() ?? ""}/`;
}

async function readFile(url, optional) {
  const { readFile: read } = await import("node:fs/promises");
  try {
    const bytes = await read(url);
    return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  } catch (error) {
    if (optional && error.code === "ENOENT") return null;
    throw new ElmoError(`${url.pathname} could not be read: ${error.message}.`);
  }
}

let compiled = null; // elmo.wasm, compiled once for all models

async function instantiate() {
  compiled ??= (async () => {
    const bytes = await new Folder(new URL("./", import.meta.url)).read("elmo.wasm");
    return WebAssembly.compile(bytes);
  })();
  try {
    return (await WebAssembly.instantiate(await compiled)).exports;
  } catch (error) {
    compiled = null;
    if (error instanceof ElmoError) throw error;
    throw new ElmoError(`WebAssembly with SIMD is needed (${error.message}); use a browser of 2023 or later.`);
  }
}

/* ---- the memory of the WebAssembly kernels ---- */

class Memory {
  constructor(exports) {
    this.exports = exports;
    this.buffers = new Map(); // name -> [address, bytes]
    this.scratch = [0, 0];
  }

  /** Copy values to newly allocated memory, which is never freed. */
  keep(values) {
    const address = this.allocate(values.byteLength);
    this.write(address, values);
    return address;
  }

  /** Copy values to the buffer of a name, replacing its previous content. */
  put(name, values) {
    const address = this.buffer(name, values.byteLength);
    this.write(address, values);
    return address;
  }

  buffer(name, size) {
    let [address, room] = this.buffers.get(name) ?? [0, 0];
    if (room < size) {
      room = 2 * size;
      address = this.allocate(room);
      this.buffers.set(name, [address, room]);
    }
    return address;
  }

  allocate(size) {
    const address = this.exports.elmo_allocate(size);
    if (!address) throw new ElmoError(`Out of memory: ${size} bytes cannot be allocated; use shorter texts or reload the page.`);
    return address >>> 0;
  }

  write(address, values) {
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    new Uint8Array(this.exports.memory.buffer, address, values.byteLength).set(bytes);
  }

  floats(address, length) {
    return new Float32Array(this.exports.memory.buffer, address, length).slice();
  }

  integers(address, length) {
    return new Int32Array(this.exports.memory.buffer, address, length).slice();
  }

  /** Call a kernel with the scratch memory that it requests, passed as its last two arguments. */
  run(kernel, ...inputs) {
    let needed = kernel(...inputs, ...this.scratch);
    if (needed > 0) {
      this.scratch = [this.allocate(2 * needed), 2 * needed];
      needed = kernel(...inputs, ...this.scratch);
    }
    if (needed !== 0) throw new ElmoError("Ids are out of range for the kernels; report this as a bug.");
  }
}

/* ---- the network: tokens -> layers ---- */

const BEGIN = Symbol("begin"), END = Symbol("end"); // the boundaries of a sentence, which no text can equal
const MAX_CACHED_WORDS = 50_000;
const TOKENS_AT_ONCE = 1024, SENTENCES_AT_ONCE = 32;
const OF_ENCODER = -1; // in place of a direction: the matrices of the word encoder
const CHARACTERS = { begin: 257, end: 258, beginWord: 259, endWord: 260, padding: 261, shift: 1 };

class Network {
  constructor(config, arrays, exports, vocabulary) {
    this.config = config;
    this.arrays = arrays;
    this.kernels = exports;
    this.memory = new Memory(exports);
    this.vocabulary = vocabulary;
    this.dim = config.encoder.output_dim;
    this.numLayers = config.encoder.num_layers + 1;
    this.cache = new Map(); // token -> its vector in layer 0
    this.#check();
    this.#setDirections();
    if (config.characters) this.#setCharacters();
    else this.#setWords();
    this.arrays = null; // copied to the kernels
  }

  #check() {
    const { encoder, characters, words } = this.config;
    const faults = [];
    if ((encoder.kind ?? "lstm") !== "lstm") faults.push(`its encoder is ${encoder.kind}, not lstm`);
    if (encoder.num_layers > this.kernels.elmo_max_layers()) faults.push(`it has ${encoder.num_layers} layers`);
    if (characters && words) faults.push("it reads characters and whole words");
    if (characters && characters.alphabet !== "utf-8") faults.push(`its alphabet is ${characters.alphabet}`);
    if (characters && characters.num_highways > this.kernels.elmo_max_highways()) faults.push("it has too many highways");
    if (!this.config.token_projection) faults.push("it has no projection of tokens");
    if (faults.length) throw new ElmoError(`elmo.js cannot run this model: ${faults.join("; ")}. Use Python for it.`);
  }

  #floats(name) {
    return floatsOf(this.arrays, name);
  }

  #setDirections() {
    const { encoder } = this.config;
    ["left_to_right", "right_to_left"].forEach((direction, number) => {
      for (let layer = 0; layer < encoder.num_layers; layer++) {
        const name = `${direction}.layers.${layer}`;
        this.#setMatrix(number, layer, 0, [`${name}.input_weight`], 4);
        this.#setMatrix(number, layer, 1, [`${name}.state_weight`], 4);
        if (encoder.projected) this.#setMatrix(number, layer, 2, [`${name}.projection_weight`], 1);
        const bias = this.#floats(`${name}.bias`).slice();
        for (let i = encoder.cell_dim; i < 2 * encoder.cell_dim; i++) bias[i] += encoder.forget_bias;
        this.kernels.elmo_set_layer(
          number, layer, this.memory.keep(bias), encoder.cell_clip ?? Infinity, encoder.projection_clip ?? Infinity,
          encoder.residual ? 1 : 0,
        );
      }
    });
  }

  #setCharacters() {
    const { characters } = this.config, prefix = "tokens.characters";
    const [alphabet, size] = this.arrays.get(`${prefix}.embedding.weight`).shape;
    const letters = this.#floats(`${prefix}.embedding.weight`);
    const rowSize = characters.filters.reduce((sum, [width, count]) => sum + width * count, 0);
    const table = new Float32Array(alphabet * rowSize), biases = [];
    let first = 0;
    characters.filters.forEach(([width, count], number) => {
      const name = `${prefix}.convolutions.${number}`, weight = this.#floats(`${name}.weight`); // (count, size, width)
      biases.push(...this.#floats(`${name}.bias`));
      for (let letter = 0; letter < alphabet; letter++)
        for (let place = 0; place < width; place++)
          for (let channel = 0; channel < count; channel++) {
            let sum = 0;
            for (let k = 0; k < size; k++) sum += letters[letter * size + k] * weight[(channel * size + k) * width + place];
            table[letter * rowSize + first + place * count + channel] = sum;
          }
      first += width * count;
    });
    for (let number = 0; number < characters.num_highways; number++) {
      const name = `${prefix}.highways.${number}`;
      this.#setMatrix(OF_ENCODER, 0, number, [`${name}.transform.weight`, `${name}.gate.weight`], 1);
      const bias = Float32Array.from([...this.#floats(`${name}.transform.bias`), ...this.#floats(`${name}.gate.bias`)]);
      this.kernels.elmo_set_bias(number, this.memory.keep(bias));
    }
    this.#setProjection();
    const whole = (column) => this.memory.keep(BigInt64Array.from(characters.filters, (filter) => BigInt(filter[column])));
    this.kernels.elmo_set_characters(
      biases.length, characters.filters.length, characters.max_characters, whole(0), whole(1), this.memory.keep(table),
      rowSize, this.memory.keep(Float32Array.from(biases)), alphabet, characters.activation === "tanh" ? 1 : 0,
      characters.num_highways,
    );
  }

  #setWords() {
    const { dtype, shape, data } = this.arrays.get("tokens.words.weight") ?? missing("tokens.words.weight");
    this.words = { size: shape[1], dtype, data };
    if (dtype === "I8") this.words.scales = this.#floats("tokens.words.weight.scale");
    else this.words.data = this.#floats("tokens.words.weight");
    this.#setProjection();
  }

  #setProjection() {
    const number = this.kernels.elmo_max_highways(); // the projection follows the highways
    this.#setMatrix(OF_ENCODER, 0, number, ["tokens.projection.weight"], 1);
    this.kernels.elmo_set_bias(number, this.memory.keep(this.#floats("tokens.projection.bias")));
  }

  /** Stack the rows of some matrices and pack them into panels, as described in kernels.h. */
  #setMatrix(direction, layer, which, names, numGroups) {
    const matrices = names.map((name) => bytesOf(this.arrays, name)), numInputs = matrices[0].size;
    const numOutputs = matrices.reduce((sum, { numRows }) => sum + numRows, 0) / numGroups;
    const panel = this.kernels.elmo_panel(), perGroup = Math.ceil(numOutputs / panel);
    const fours = Math.ceil(numInputs / 4), panels = perGroup * numGroups;
    const packed = new Int8Array(panels * fours * panel * 4), allScales = new Float32Array(panels * panel);
    let row = 0;
    for (const { bytes, scales, numRows } of matrices)
      for (let matrixRow = 0; matrixRow < numRows; matrixRow++, row++) {
        const group = Math.floor(row / numOutputs), output = row % numOutputs, start = matrixRow * numInputs;
        const place = (group * perGroup + Math.floor(output / panel)) * panel + (output % panel);
        const lane = place & 3;
        const base = Math.floor(place / panel) * fours * panel * 4 + ((place % panel) - lane) * 4 + lane * 2;
        // Pairs of inputs, see vi_dot of vectors_portable.h.
        for (let k = 0; k < numInputs; k++) packed[base + (k >> 2) * panel * 4 + (k & 2) * 4 + (k & 1)] = bytes[start + k];
        allScales[place] = scales[matrixRow];
      }
    this.kernels.elmo_set_matrix(
      direction, layer, which, numInputs, numOutputs, numGroups, this.memory.keep(packed), this.memory.keep(allScales),
    );
  }

  /** Return context-free vectors (n, D) of distinct tokens, from the cache, their characters or the word embedding. */
  encode(tokens) {
    const uncached = tokens.filter((token) => !this.cache.has(token));
    if (uncached.length) {
      const vectors = this.config.characters ? this.#encodeCharacters(uncached) : this.#lookUp(uncached);
      if (this.cache.size > MAX_CACHED_WORDS) {
        const kept = new Map(tokens.filter((token) => this.cache.has(token)).map((token) => [token, this.cache.get(token)]));
        this.cache = kept;
      }
      uncached.forEach((token, row) => this.cache.set(token, vectors.slice(row * this.dim, (row + 1) * this.dim)));
    }
    return tokens.map((token) => this.cache.get(token));
  }

  #encodeCharacters(tokens) {
    const width = this.config.characters.max_characters, encoder = new TextEncoder();
    const ids = new BigInt64Array(tokens.length * width).fill(BigInt(CHARACTERS.padding));
    tokens.forEach((token, row) => {
      const content = [CHARACTERS.beginWord];
      if (token === BEGIN) content.push(CHARACTERS.begin);
      else if (token === END) content.push(CHARACTERS.end);
      // Lone surrogates have no bytes; truncation may split a character, as in the original programs.
      else for (const byte of encoder.encode(token.replace(/\p{Surrogate}/gu, "")).subarray(0, width - 2)) content.push(byte + CHARACTERS.shift);
      content.push(CHARACTERS.endWord);
      content.forEach((id, place) => (ids[row * width + place] = BigInt(id)));
    });
    const output = this.memory.buffer("encoded", 4 * tokens.length * this.dim);
    this.memory.run(this.kernels.elmo_encode, this.memory.put("ids", ids), tokens.length, output);
    return this.memory.floats(output, tokens.length * this.dim);
  }

  #lookUp(tokens) {
    const { size, data, scales } = this.words, rows = new Float32Array(tokens.length * size);
    const maxLength = this.config.words.max_word_length ?? Infinity;
    tokens.forEach((token, row) => {
      const cut = typeof token === "string" && token.length > maxLength ? [...token].slice(0, maxLength).join("") : token;
      const id = this.vocabulary.id(cut), scale = scales ? scales[id] : 1;
      for (let i = 0; i < size; i++) rows[row * size + i] = data[id * size + i] * scale;
    });
    const output = this.memory.buffer("encoded", 4 * tokens.length * this.dim);
    this.memory.run(this.kernels.elmo_project, this.memory.put("rows", rows), tokens.length, output);
    return this.memory.floats(output, tokens.length * this.dim);
  }

  /**
   * Run both directions over tokenized sentences. `mix` has one list of layer weights per output vector. Returns one
   * Float32Array (tokens + 2, vectors, 2D) per sentence; the first and the last row are the boundaries.
   */
  forward(sentences, mix) {
    const results = new Array(sentences.length);
    const order = sentences.map((_, number) => number).sort((a, b) => sentences[b].length - sentences[a].length);
    for (let start = 0; start < order.length; ) {
      const longest = sentences[order[start]].length + 2;
      const count = Math.max(1, Math.min(SENTENCES_AT_ONCE, Math.floor(TOKENS_AT_ONCE / longest)));
      const batch = order.slice(start, start + count);
      this.#forward(batch.map((number) => sentences[number]), mix).forEach((rows, place) => (results[batch[place]] = rows));
      start += count;
    }
    return results;
  }

  /** Run the encoder on a batch of sentences sorted by decreasing length. */
  #forward(sentences, mix) {
    const numbers = new Map([[BEGIN, 0], [END, 1]]);
    for (const sentence of sentences) for (const token of sentence) if (!numbers.has(token)) numbers.set(token, numbers.size);
    const vectors = new Float32Array(numbers.size * this.dim);
    this.encode([...numbers.keys()]).forEach((vector, row) => vectors.set(vector, row * this.dim));
    const tokens = sentences.map((sentence) => [0, ...sentence.map((token) => numbers.get(token)), 1]);
    const starts = [];
    let numRows = 0;
    for (const row of tokens) {
      starts.push(numRows);
      numRows += row.length;
    }
    const [sources, targets, backSources, backTargets] = Array.from({ length: 4 }, () => new BigInt64Array(numRows));
    const counts = new BigInt64Array(tokens[0].length);
    let at = 0;
    for (let step = 0; step < tokens[0].length; step++)
      for (let row = 0; row < tokens.length && step < tokens[row].length; row++, at++) {
        const back = tokens[row].length - 1 - step;
        counts[step]++;
        sources[at] = BigInt(tokens[row][step]);
        targets[at] = BigInt(starts[row] + step);
        backSources[at] = BigInt(tokens[row][back]);
        backTargets[at] = BigInt(starts[row] + back);
      }
    const { memory } = this, rowSize = mix.length * 2 * this.dim;
    const result = memory.buffer("result", 4 * numRows * rowSize);
    memory.run(
      this.kernels.elmo_run, memory.put("words", vectors), numbers.size, memory.put("sources", sources),
      memory.put("targets", targets), memory.put("backSources", backSources), memory.put("backTargets", backTargets),
      memory.put("counts", counts), tokens[0].length, numRows, memory.put("mix", Float32Array.from(mix.flat())),
      mix.length, result,
    );
    return tokens.map((row, number) => memory.floats(result + 4 * starts[number] * rowSize, row.length * rowSize));
  }
}

/* ---- words and their ids ---- */

const SMOOTHING = 0.5, RANK_SHIFT = 2.7; // as in elmo/text/vocabulary.py

class Vocabulary {
  constructor(words, counts, config) {
    this.words = words;
    this.special = { begin: config.begin_word ?? "<S>", end: config.end_word ?? "</S>", unknown: config.unknown_word ?? "<UNK>" };
    this.ids = new Map(words.map((word, number) => [word, number]));
    this.counts = counts;
  }

  /** Return the id of a token; words outside the vocabulary and literal boundaries are unknown. */
  id(token) {
    const { begin, end, unknown } = this.special;
    if (token === BEGIN) return this.ids.get(begin);
    if (token === END) return this.ids.get(end);
    const known = token === begin || token === end ? undefined : this.ids.get(token);
    return known ?? this.ids.get(unknown);
  }

  /** Return the natural logarithms of the words' relative frequencies. */
  get logFrequencies() {
    if (!this.frequencies) {
      const special = new Set(Object.values(this.special));
      let rank = 0;
      const counts = Float64Array.from(this.words, (word, number) =>
        this.counts ? this.counts[number] + SMOOTHING : 1 / ((special.has(word) ? rank : ++rank) + RANK_SHIFT));
      const total = counts.reduce((sum, count) => sum + count, 0);
      this.frequencies = counts.map((count) => Math.log(count / total));
    }
    return this.frequencies;
  }
}

/* ---- words -> tokens ---- */

class Tokenization {
  constructor(config = {}, aliases = new Map()) {
    this.scripts = config.scripts ?? ["Han"];
    this.readsCharacters = config.units === "characters";
    this.aliases = aliases;
  }

  words(text) {
    return tokenize(text, this.scripts);
  }

  /** Return the tokens of some words, and the half-open range of tokens of each word. */
  tokens(words) {
    const tokens = [], ranges = [];
    for (const word of words) {
      const pieces = this.readsCharacters && word.length > 1 ? this.words(word).map(({ text }) => text) : [word];
      const start = tokens.length;
      for (const piece of pieces.length ? pieces : [word]) tokens.push(this.#readAs(piece));
      ranges.push([start, tokens.length]);
    }
    return { tokens, ranges };
  }

  #readAs(token) {
    const alias = this.aliases.get(token);
    if (alias !== undefined || !this.readsCharacters) return alias ?? token;
    return token.replace(/[０-９Ａ-Ｚａ-ｚ]/g, (letter) => String.fromCharCode(letter.charCodeAt(0) - 0xfee0));
  }

  /** Return consecutive tokens as text. */
  join(tokens) {
    const spaceless = new RegExp(`^[${this.scripts.map((script) => `\\p{Script=${script}}`).join("")}]$`, "u");
    let text = "";
    for (const token of tokens) {
      const needsSpace = text && !spaceless.test([...text].at(-1)) && !spaceless.test([...token][0] ?? "");
      text += needsSpace ? ` ${token}` : token;
    }
    return text;
  }
}

/* ---- the context layer: static vectors, meaning and candidates for substitutes ---- */

const NO_ROW = -1;
// As in elmo/inference/meaning.py.
const LIKELIHOOD = 0.5, TOPIC = 3, CUTOFF = 5, SUBSTITUTE_SHRINKAGE = 0.2, FREQUENCY = 1.25;
const NUM_CANDIDATE_WORDS = 20_000, NUM_WORDS = 16_384, LEAST_WEIGHT = 0.07, MOST_LISTS = 20_000;
const LARGEST_PRODUCT = 2 ** 31 - 1;
const CONTEXT_DEFAULTS = {
  window: 15, focus: 2, shrinkage: 0.1, share: 1.5, decay: 0, substitutes: 0, word: 0, num_candidates: 384,
  relatedness: 2, unknown_weight: 0.5, lowercase: true,
};

const stateLevels = (dim) => Math.min(32767, Math.floor(LARGEST_PRODUCT / (128 * dim)));

class StaticTable {
  constructor(settings, words, arrays, network) {
    this.settings = { ...CONTEXT_DEFAULTS, ...settings };
    this.dim = settings.dim;
    this.arrays = arrays;
    this.vectors = arrays.get("vectors").data;
    this.scales = floatsOf(arrays, "scales");
    this.weights = floatsOf(arrays, "weights");
    this.rows = new Map(words.map((word, row) => [word, row]));
    this.network = network;
    this.estimated = new Map(); // token without a row -> its estimate
  }

  floats(name) {
    return floatsOf(this.arrays, name);
  }

  row(token) {
    return this.rows.get(this.settings.lowercase ? token.toLowerCase() : token) ?? NO_ROW;
  }

  /** Return the static vector of a token: {row, bytes, scale, weight}. */
  lookUp(token) {
    const row = this.row(token);
    if (row === NO_ROW) return this.#estimate(token);
    const bytes = this.vectors.subarray(row * this.dim, (row + 1) * this.dim);
    return { row, bytes, scale: this.scales[row], weight: this.weights[row] };
  }

  /** Return the mean vector of some tokens, scaled to length 1. */
  mean(tokens) {
    const mean = new Float32Array(this.dim);
    for (const { bytes, scale } of tokens.map((token) => this.lookUp(token)))
      for (let i = 0; i < this.dim; i++) mean[i] += bytes[i] * scale;
    return normalize(mean);
  }

  /** Return the cosine of each vocabulary word with the mean of some tokens; -1 for words without a row. */
  relate(vocabulary, tokens) {
    const query = this.mean(tokens);
    this.vocabularyRows ??= Int32Array.from(vocabulary.words, (word) => this.row(word));
    return Float64Array.from(this.vocabularyRows, (row) => {
      if (row === NO_ROW) return -1;
      let sum = 0;
      for (let i = 0, at = row * this.dim; i < this.dim; i++, at++) sum += query[i] * this.vectors[at];
      return sum * this.scales[row];
    });
  }

  #estimate(token) {
    if (!this.estimated.has(token)) {
      this.map ??= this.floats("unknown_map");
      this.bias ??= this.floats("unknown_bias");
      const [encoded] = this.network.encode([token]), estimate = Float32Array.from(this.bias);
      for (let d = 0; d < encoded.length; d++)
        for (let e = 0; e < this.dim; e++) estimate[e] += encoded[d] * this.map[d * this.dim + e];
      const { bytes, scales } = quantize(normalize(estimate), this.dim);
      if (this.estimated.size >= MAX_CACHED_WORDS) this.estimated.clear();
      this.estimated.set(token, { row: NO_ROW, bytes, scale: scales[0], weight: this.settings.unknown_weight });
    }
    return this.estimated.get(token);
  }
}

function normalize(vector) {
  const length = Math.max(Math.sqrt(dot(vector, vector)), TINY);
  return vector.map((value) => value / length);
}

function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

class Meaning {
  /** `softmaxes` is null if no substitutes are used. */
  constructor(table, network, vocabulary, softmaxes) {
    this.table = table;
    this.network = network;
    this.lists = new Map(); // rows of a word or phrase -> its candidates
    const { settings } = table;
    this.words = softmaxes ? this.#gather(vocabulary, softmaxes) : null;
    this.numCandidates = this.words ? Math.min(settings.num_candidates, this.words.count) : 1;
    const values = [1, settings.share, this.words ? settings.substitutes : 0, settings.word];
    const total = values.reduce((sum, value) => sum + value, 0);
    const stateDim = this.words?.stateDim ?? network.dim;
    const numbers = Float32Array.from([
      settings.focus, settings.decay, settings.shrinkage, TOPIC, CUTOFF, SUBSTITUTE_SHRINKAGE,
      ...values.map((value) => Math.sqrt(value / total)),
    ]);
    const { vectors = 0, scales = 0, softmax = 0 } = this.words ?? {};
    network.kernels.elmo_set_meaning(
      table.dim, 2 * network.dim, stateDim, this.numCandidates, settings.window, vectors, scales, softmax,
      network.memory.put("settings", numbers),
    );
  }

  /** Return the frequent vocabulary words that have static vectors, each in its most frequent spelling. */
  #gather(vocabulary, softmaxes) {
    const { table, network } = this, frequencies = vocabulary.logFrequencies, special = new Set(Object.values(vocabulary.special));
    const byFrequency = Array.from(vocabulary.words.keys()).sort((a, b) => frequencies[b] - frequencies[a] || a - b);
    const ids = new Map();
    for (const id of byFrequency) {
      const word = vocabulary.words[id], row = table.row(word);
      if (row !== NO_ROW && !ids.has(row) && !special.has(word) && !isPunctuation(word)) ids.set(row, id);
    }
    const chosen = [...ids.keys()].sort((a, b) => a - b).slice(0, NUM_CANDIDATE_WORDS), count = chosen.length;
    if (!count) return null;
    const vectors = new Int8Array(count * table.dim), scales = new Float32Array(count), offsets = new Float32Array(count);
    const [left, right] = softmaxes, stateDim = left === right ? left.size : left.size + right.size;
    const softmax = new Int8Array(count * stateDim), factors = new Float32Array(count);
    chosen.forEach((row, place) => {
      const id = ids.get(row);
      vectors.set(table.vectors.subarray(row * table.dim, (row + 1) * table.dim), place * table.dim);
      scales[place] = table.scales[row];
      offsets[place] = LIKELIHOOD * (left.bias[id] + right.bias[id] - FREQUENCY * frequencies[id]);
      const output = left === right ? left.row(id) : joinRows(left.row(id), right.row(id));
      softmax.set(output.bytes, place * stateDim);
      factors[place] = LIKELIHOOD * output.scale;
    });
    const { memory } = network;
    return {
      count, stateDim, ownVectors: vectors, ownScales: scales, factors, offsets, vectors: memory.keep(vectors),
      scales: memory.keep(scales), softmax: memory.keep(softmax),
    };
  }

  /**
   * Return the meanings (spans, 2D + d) of half-open ranges of the tokens of a sentence; `top` (tokens + 2, 2D) is its
   * top layer with boundaries.
   */
  find(tokens, top, spans) {
    const { table, network: { kernels, memory, dim: half } } = this, { dim } = table, { window } = table.settings;
    const numbers = new Map(), distinct = [{ bytes: new Int8Array(dim), scale: 0, weight: 0, row: NO_ROW }]; // boundaries
    const positions = [0, ...tokens.map((token) => {
      if (!numbers.has(token)) {
        numbers.set(token, distinct.length);
        distinct.push(table.lookUp(token));
      }
      return numbers.get(token);
    }), 0];
    const size = 2 * half + dim, result = memory.buffer("meanings", 4 * spans.length * size);
    const lists = [], places = [];
    for (const [number, [start, end]] of spans.entries()) {
      const inside = positions.slice(start + 1, end + 1);
      let query = inside[0];
      if (inside.length > 1) {
        query = distinct.length;
        distinct.push(meanOf(inside.map((token) => distinct[token]), dim));
      }
      const list = this.#candidates(inside.map((token) => distinct[token]), distinct[query]);
      const place = list ? lists.push(list) - 1 : -1, address = result + 4 * number * size;
      places.push(1, tokens.length + 1, start + 1, end + 1, query, place, address);
    }
    const join = (Type, size, values) => {
      const joined = new Type(Math.max(1, values.length * size));
      values.forEach((value, place) => (size === 1 ? (joined[place] = value) : joined.set(value, place * size)));
      return joined;
    };
    const longest = Math.max(...spans.map(([start, end]) => end - start)) + 2 * window;
    memory.run(
      kernels.elmo_find_all_meanings, memory.put("top", top), memory.put("positions", BigInt64Array.from(positions, BigInt)),
      memory.put("tokenVectors", join(Int8Array, dim, distinct.map(({ bytes }) => bytes))),
      memory.put("tokenScales", join(Float32Array, 1, distinct.map(({ scale }) => scale))),
      memory.put("tokenWeights", join(Float32Array, 1, distinct.map(({ weight }) => weight))),
      spans.length, memory.put("spans", BigInt64Array.from(places, BigInt)), longest,
      memory.put("candidates", join(Uint16Array, this.numCandidates, lists.map(({ chosen }) => chosen))),
      memory.put("factors", join(Float32Array, this.numCandidates, lists.map(({ factors }) => factors))),
      memory.put("offsets", join(Float32Array, this.numCandidates, lists.map(({ offsets }) => offsets))),
      memory.put("priors", join(Float32Array, dim, lists.map(({ prior }) => prior))),
    );
    return memory.floats(result, spans.length * size);
  }

  /** Return the nearest candidates of a word, or of a phrase by its mean vector; null if there are none. */
  #candidates(inside, { bytes, scale }) {
    if (!this.words || inside.some(({ row }) => row === NO_ROW)) return null;
    if (inside.length === 1 && (inside[0].row >= NUM_WORDS || inside[0].weight < LEAST_WEIGHT)) return null;
    const key = inside.map(({ row }) => row).join();
    if (!this.lists.has(key)) {
      if (this.lists.size >= MOST_LISTS) this.lists.clear();
      this.lists.set(key, this.#findNearest(bytes, scale));
    }
    return this.lists.get(key);
  }

  #findNearest(bytes, scale) {
    const { table: { dim, settings }, words, numCandidates: number, network: { kernels, memory } } = this;
    const nearest = memory.buffer("nearest", 4 * number), cosines = memory.buffer("nearestCosines", 4 * number);
    kernels.elmo_find_nearest(
      words.vectors, words.scales, words.count, dim, memory.put("query", bytes), scale, number,
      memory.buffer("allCosines", 4 * words.count), nearest, cosines,
    );
    const chosen = Uint16Array.from(memory.integers(nearest, number)), exact = memory.floats(cosines, number);
    const peak = exact.reduce((a, b) => Math.max(a, b)), shares = Array.from(exact, (value) => Math.exp(settings.relatedness * (value - peak)));
    const total = shares.reduce((sum, share) => sum + share, 0), prior = new Float32Array(dim);
    chosen.forEach((word, place) => {
      const share = (shares[place] / total) * words.ownScales[word];
      for (let i = 0; i < dim; i++) prior[i] += share * words.ownVectors[word * dim + i];
    });
    const factors = Float32Array.from(chosen, (word) => words.factors[word]);
    const offsets = Float32Array.from(chosen, (word, place) => words.offsets[word] + settings.relatedness * exact[place]);
    return { chosen, factors, offsets, prior };
  }
}

function joinRows(first, second) {
  const values = Float32Array.from([...first.bytes].map((byte) => byte * first.scale).concat([...second.bytes].map((byte) => byte * second.scale)));
  const { bytes, scales } = quantize(values, values.length);
  return { bytes, scale: scales[0] };
}

function meanOf(tokens, dim) {
  const mean = new Float32Array(dim);
  for (const { bytes, scale } of tokens) for (let i = 0; i < dim; i++) mean[i] += (bytes[i] * scale) / tokens.length;
  const { bytes, scales } = quantize(mean, dim);
  return { bytes, scale: scales[0], weight: 0, row: NO_ROW };
}

/* ---- the softmax ---- */

class Softmax {
  constructor(arrays, name, network) {
    Object.assign(this, bytesOf(arrays, `${name}.weight`));
    this.bias = floatsOf(arrays, `${name}.bias`);
    this.network = network;
    const { memory } = network;
    this.addresses = [memory.keep(this.bytes), memory.keep(this.scales), memory.keep(this.bias)];
  }

  row(id) {
    return { bytes: this.bytes.subarray(id * this.size, (id + 1) * this.size), scale: this.scales[id] };
  }

  /** Return the cosine of every row with a word's row, after subtracting the mean: high for words used similarly. */
  cosines(id) {
    this.centred ??= this.#centre();
    const { mean, lengths } = this.centred, { size, numRows, bytes, scales } = this, query = new Float32Array(size);
    for (let i = 0; i < size; i++) query[i] = (bytes[id * size + i] * scales[id] - mean[i]) / lengths[id];
    const offset = dot(mean, query);
    return Float64Array.from({ length: numRows }, (_, row) => {
      let sum = 0;
      for (let i = 0, at = row * size; i < size; i++, at++) sum += bytes[at] * query[i];
      return (sum * scales[row] - offset) / lengths[row];
    });
  }

  /** Return the mean of the rows, and the lengths of the rows after subtracting it. */
  #centre() {
    const { size, numRows, bytes, scales } = this, mean = new Float64Array(size);
    for (let row = 0; row < numRows; row++) {
      for (let i = 0; i < size; i++) mean[i] += bytes[row * size + i] * scales[row] / numRows;
    }
    const lengths = Float64Array.from({ length: numRows }, (_, row) => {
      let sum = 0;
      for (let i = 0; i < size; i++) sum += (bytes[row * size + i] * scales[row] - mean[i]) ** 2;
      return Math.sqrt(sum) || Number.MIN_VALUE;
    });
    return { mean, lengths };
  }

  /** Return the log probabilities of all words after each state: one Float32Array per state. */
  logProbabilities(states) {
    return states.map((state) => {
      const { memory, kernels } = this.network, logits = memory.buffer("logits", 4 * this.numRows);
      const [weights, scales, bias] = this.addresses;
      kernels.elmo_predict(
        memory.put("state", state), 1, this.size, weights, scales, bias, this.numRows, stateLevels(this.size),
        memory.buffer("rounded", 2 * this.size), logits,
      );
      const values = memory.floats(logits, this.numRows), total = logSum(values);
      for (let i = 0; i < values.length; i++) values[i] -= total;
      return values;
    });
  }
}

/** Return the sum of the top layer, both directions, over a span. */
function sumOfSpan(left, right, start, end) {
  const dim = left[0].length, sum = new Float32Array(2 * dim);
  for (let place = start; place < end; place++) {
    for (let i = 0; i < dim; i++) {
      sum[i] += left[place + 1][i];
      sum[dim + i] += right[place][i];
    }
  }
  return sum;
}

/** Return the cosines of all words with one word, by the rows of the softmaxes; 0 for an unknown word. */
function compareUsage([left, right], vocabulary, word) {
  const id = vocabulary.id(word);
  if (id === vocabulary.ids.get(vocabulary.special.unknown)) return new Float64Array(left.numRows);
  const cosines = left.cosines(id);
  if (left === right) return cosines;
  const rightCosines = right.cosines(id);
  return cosines.map((value, row) => (value + rightCosines[row]) / 2);
}

function logSum(values) {
  let peak = -Infinity, sum = 0;
  for (const value of values) if (value > peak) peak = value;
  if (peak === -Infinity) return peak;
  for (const value of values) sum += Math.exp(value - peak);
  return peak + Math.log(sum);
}

/** Return the indices of the highest scores, best first; ties are broken by index. */
function findBest(scores, number) {
  const best = []; // places, best first
  for (let place = 0; place < scores.length; place++) {
    const score = scores[place];
    if (best.length === number && !(score > scores[best[number - 1]])) continue;
    let at = best.length === number ? number - 1 : best.length;
    for (; at > 0 && scores[best[at - 1]] < score; at--) best[at] = best[at - 1];
    best[at] = place;
  }
  return best;
}

/* ---- the model ---- */

const BEAM = 48; // beam width, in runs of characters, for filling a span
// For substitutes, as in elmo/inference/substitution.py.
const RELATEDNESS = 20, USAGE = 20, OTHER_CASE = 5;
const BEAM_RELATEDNESS = 20, RUN_RELATEDNESS = 10, RUN_USAGE = 10, RUN_FREQUENCY = 0.5;
const SUFFIXES = {
  iest: "y", ings: "", ing: "", ier: "y", ies: "y", ied: "y", ers: "", est: "", ed: "", er: "", es: "", ly: "", s: "", e: "",
};
const isUpper = (word) => /^\p{Lu}/u.test(word);

/** Return a stem that most inflected forms of an English word share. */
function stemOf(word) {
  let stem = word.toLowerCase();
  const ending = Object.keys(SUFFIXES).find((suffix) => stem.endsWith(suffix) && stem.length - suffix.length >= 3);
  if (ending) stem = stem.slice(0, -ending.length) + SUFFIXES[ending];
  return stem.length > 3 && stem.at(-1) === stem.at(-2) ? stem.slice(0, -1) : stem;
}
const RARITY_FLOOR = 1e-3;

/** The vectors of one sentence: `data` has `shape` in row-major order; `words` have character offsets. */
class Vectors {
  constructor(words, shape, data) {
    this.words = words;
    this.shape = shape;
    this.data = data;
  }

  /** Return the vector of a word; with layers "all", its vector in one layer. */
  vector(word, layer = 0) {
    const [numWords, dim] = this.shape.slice(-2), start = (layer * numWords + word) * dim;
    return this.data.subarray(start, start + dim);
  }
}

/** Return the cosine of two vectors; 0 if one of them is zero. */
export function cosine(a, b) {
  const lengths = Math.sqrt(dot(a, a)) * Math.sqrt(dot(b, b));
  return lengths > 0 ? Math.max(-1, Math.min(1, dot(a, b) / lengths)) : 0;
}

export class Elmo {
  #folder;
  #network;
  #arrays; // weights.safetensors, until the softmax is opened
  #tokenization;
  #vocabulary;
  #opened = new Map(); // name of a component -> promise of it

  /** Use Elmo.load. */
  constructor(folder, config, network, arrays, vocabulary, tokenization) {
    [this.#folder, this.config, this.#network, this.#arrays] = [folder, config, network, arrays];
    [this.#vocabulary, this.#tokenization] = [vocabulary, tokenization];
    this.numLayers = network.numLayers;
    this.dim = 2 * network.dim;
    this.hasContext = Boolean(config.context);
    this.predictsWords = Boolean(config.model.softmax) && vocabulary !== null;
  }

  /** Open a model folder; `onProgress({file, loaded, total})` is called while files arrive. */
  static async load(source, { onProgress } = {}) {
    const folder = new Folder(source, onProgress);
    const [exports, bytes] = await Promise.all([instantiate(), folder.read("config.json")]);
    const config = JSON.parse(new TextDecoder().decode(bytes));
    if (config.format !== "modern-elmo") throw new ElmoError(`${folder.base} is not a model folder of modern-elmo; convert the model with \`elmo convert\`.`);
    const { model } = config, optional = { optional: true };
    folder.sizes = config.files ?? null;
    const [weights, words, counts, aliases] = await Promise.all([
      folder.read("weights.safetensors"),
      folder.lines("vocabulary.txt", optional),
      folder.lines("word_counts.txt", optional),
      folder.lines("aliases.txt", optional),
    ]);
    const vocabulary = words && new Vocabulary(words, counts?.map(Number) ?? null, model);
    const pairs = aliases?.map((line) => line.split(" ")) ?? [];
    const tokenization = new Tokenization(model.tokenization, new Map(pairs));
    const arrays = readSafetensors(weights);
    const network = new Network(model, arrays, exports, vocabulary);
    return new Elmo(folder, config, network, arrays.has("softmax.weight") ? arrays : null, vocabulary, tokenization);
  }

  /** Return the words of a text with their offsets. */
  tokenize(text) {
    return this.#tokenization.words(text);
  }

  /** Return the word vectors of one sentence, or of each of several sentences. */
  async embed(sentences, { layers = "auto", spans } = {}) {
    const [read, isSingle] = this.#read(sentences);
    const spanLists = spans && (isSingle && !Array.isArray(spans[0]?.[0]) ? [spans] : spans);
    const choice = this.#choose(layers);
    const results = choice.isMeaning ? await this.#meanings(read, spanLists) : this.#layers(read, choice, spanLists);
    return isSingle ? results[0] : results;
  }

  /** Return one vector per sentence, for comparing sentences by cosine. */
  async encode(sentences) {
    const [read, isSingle] = this.#read(sentences);
    let vectors;
    if (this.config.sentence) vectors = await this.#encodeByHead(read);
    else if (this.hasContext) vectors = await this.#encodeByWeights(read);
    else vectors = this.#layers(read, this.#choose("average")).map(meanOfRows);
    return isSingle ? vectors[0] : vectors;
  }

  /** Return the cosine of two words, each [marked] in its sentence or named by an index or range. */
  async similarity(first, second, { layers = "auto", indexA, indexB } = {}) {
    if (layers === "all") throw new ElmoError('layers is "all", but two vectors are compared; choose one layer, "meaning" or "average".');
    const places = [this.#locate(first, indexA), this.#locate(second, indexB)];
    const results = await this.embed(places.map(({ words }) => words), { layers, spans: places.map(({ span }) => [span]) });
    return cosine(results[0].data, results[1].data);
  }

  /** Return substitutes for a word in its sentence, best first: [{word, logProbability}]. */
  async substitutes(sentence, { index, topK = 10, punctuation = false, sameWord = false, addPeriod } = {}) {
    if (!Number.isInteger(topK) || topK < 1) throw new ElmoError(`topK is ${topK}; it must be a whole number of at least 1.`);
    const { words, span } = this.#locate(sentence, index);
    const softmaxes = await this.#softmaxes(), vocabulary = this.#vocabulary, { readsCharacters } = this.#tokenization;
    if (span[1] - span[0] > 1 && !readsCharacters) {
      throw new ElmoError(`${JSON.stringify(words.slice(...span).join(" "))} has several words; mark one word.`);
    }
    const period = readsCharacters ? "。" : ".";
    if ((addPeriod ?? typeof sentence === "string") && !isPunctuation(words.at(-1)) && vocabulary.ids.has(period)) words.push(period);
    const options = { topK, punctuation, sameWord, table: this.hasContext ? await this.#table() : null };
    if (!readsCharacters) return this.#substitutesOfWord(words, span[0], softmaxes, options);
    const { tokens, ranges } = this.#tokenization.tokens(words);
    return this.#substitutesOfRun(tokens, [ranges[span[0]][0], ranges[span[1] - 1][1]], softmaxes, options);
  }

  /** Return the log probabilities of the words of one sentence, or of each of several sentences. */
  async score(sentences) {
    const [read, isSingle] = this.#read(sentences), softmaxes = await this.#softmaxes(), vocabulary = this.#vocabulary;
    const unknown = vocabulary.ids.get(vocabulary.special.unknown);
    const tops = this.#forward(read.map(({ tokens }) => tokens), "top");
    const scores = read.map(({ tokens }, number) => {
      const ids = tokens.map((token) => vocabulary.id(token)), states = (side) => this.#states(tops[number], tokens.length, side);
      const left = scoreStates(softmaxes[0], states(0), [...ids, vocabulary.id(END)]);
      const right = scoreStates(softmaxes[1], states(1), [vocabulary.id(BEGIN), ...ids]);
      const loss = -[...left, ...right].reduce((sum, value) => sum + value, 0);
      return {
        words: tokens, leftToRight: left.slice(0, -1), rightToLeft: right.slice(1), end: left.at(-1), begin: right[0],
        isUnknown: ids.map((id) => id === unknown), perplexity: Math.exp(loss / (2 * (tokens.length + 1))),
      };
    });
    return isSingle ? scores[0] : scores;
  }

  /* Shared by the methods above. */

  #read(sentences) {
    const isSingle = typeof sentences === "string";
    if (!isSingle && !Array.isArray(sentences)) throw new ElmoError(`The sentences are ${typeof sentences}; give a string or a list of sentences.`);
    return [(isSingle ? [sentences] : sentences).map((sentence) => this.#readSentence(sentence)), isSingle];
  }

  #readSentence(sentence) {
    const words = typeof sentence === "string" ? this.tokenize(sentence) : sentence;
    if (!Array.isArray(words)) throw new ElmoError(`A sentence is ${typeof sentence}; give a string or a list of words.`);
    const texts = words.map((word) => word?.text ?? word);
    if (texts.some((text) => typeof text !== "string")) throw new ElmoError("A sentence has a word that is not a string; give a list of strings.");
    return { words: typeof sentence === "string" ? words : texts.map((text) => ({ text })), ...this.#tokenization.tokens(texts) };
  }

  /** Return the words of a sentence and the half-open range of the marked or indexed ones. */
  #locate(sentence, index) {
    if (index === undefined) {
      if (typeof sentence !== "string") throw new ElmoError("A list of words needs the index of one.");
      const { text, start, end } = readMarked(sentence), words = this.tokenize(text);
      const inside = words.map((word, number) => [word, number]).filter(([word]) => word.end > start && word.start < end);
      if (!inside.length) throw new ElmoError(`The brackets in ${JSON.stringify(sentence)} contain no word; put them around one.`);
      return { words: words.map((word) => word.text), span: [inside[0][1], inside.at(-1)[1] + 1] };
    }
    const words = typeof sentence === "string" ? this.tokenize(sentence).map((word) => word.text) : [...sentence];
    const span = Array.isArray(index) ? index : [index < 0 ? index + words.length : index, (index < 0 ? index + words.length : index) + 1];
    if (!span.every(Number.isInteger) || span[0] < 0 || span[0] >= span[1] || span[1] > words.length) {
      throw new ElmoError(`index is ${JSON.stringify(index)}, but the sentence has ${words.length} words.`);
    }
    return { words, span };
  }

  #choose(layers) {
    const oneLayer = (layer) => Array.from({ length: this.numLayers }, (_, number) => Number(number === layer));
    const all = Array.from({ length: this.numLayers }, (_, layer) => oneLayer(layer));
    const name = layers === "auto" ? (this.hasContext ? "meaning" : "average") : layers;
    if (name === "average") return { mix: [oneLayer(-1).map(() => 1 / this.numLayers)] };
    if (name === "top") return { mix: [oneLayer(this.numLayers - 1)] };
    if (name === "all") return { mix: all, isAll: true };
    if (name === "concat") return { mix: all };
    if (name === "meaning" && this.hasContext) return { isMeaning: true };
    if (name === "meaning") throw new ElmoError('layers is "meaning", but this model has no context layer; choose "average" or "top".');
    if (Number.isInteger(layers) && layers >= -this.numLayers && layers < this.numLayers) return { mix: [oneLayer((layers + this.numLayers) % this.numLayers)] };
    if (Array.isArray(layers) && layers.length === this.numLayers && layers.every(Number.isFinite)) return { mix: [layers] };
    throw new ElmoError(
      `layers is ${JSON.stringify(layers)}; choose "auto", "average", "top", "all", "concat", "meaning", a number from 0 ` +
        `to ${this.numLayers - 1}, or ${this.numLayers} weights.`,
    );
  }

  #forward(sentences, layers) {
    return this.#network.forward(sentences, this.#choose(layers).mix);
  }

  #layers(read, { mix, isAll }, spans) {
    const rows = this.#network.forward(read.map(({ tokens }) => tokens), mix), size = mix.length * this.dim;
    return read.map(({ words, ranges }, number) => {
      const places = wordSpans(ranges, spans?.[number], number), data = new Float32Array(places.length * size);
      places.forEach((inside, place) => {
        const [[first, next]] = inside;
        if (inside.length === 1 && next === first + 1) {
          data.set(rows[number].subarray((first + 1) * size, (first + 2) * size), place * size);
          return;
        }
        // The vector of a phrase is the mean of its words, that of a word the mean of its tokens.
        for (const [start, end] of inside)
          for (let token = start; token < end; token++)
            for (let i = 0; i < size; i++)
              data[place * size + i] += rows[number][(token + 1) * size + i] / (inside.length * (end - start));
      });
      if (!isAll) return new Vectors(words, [places.length, size], data);
      const byLayer = new Float32Array(data.length);
      for (let place = 0; place < places.length; place++)
        for (let layer = 0; layer < mix.length; layer++) {
          const start = place * size + layer * this.dim;
          byLayer.set(data.subarray(start, start + this.dim), (layer * places.length + place) * this.dim);
        }
      return new Vectors(words, [mix.length, places.length, this.dim], byLayer);
    });
  }

  async #meanings(read, spans) {
    const meaning = await this.#meaning(), tops = this.#forward(read.map(({ tokens }) => tokens), "top");
    return read.map(({ words, tokens, ranges }, number) => {
      const places = wordSpans(ranges, spans?.[number], number).map((inside) => [inside[0][0], inside.at(-1)[1]]);
      const size = this.dim + this.config.context.settings.dim;
      const data = places.length ? meaning.find(tokens, tops[number], places) : new Float32Array(0);
      return new Vectors(words, [places.length, size], data);
    });
  }

  /** Return the states that predict tokens 0 to T (left to right; T is the end) or -1 to T-1 (right to left). */
  #states(top, numTokens, side) {
    const { dim } = this.#network;
    return Array.from({ length: numTokens + 1 }, (_, place) => {
      const start = ((place + side) * 2 + side) * dim;
      return top.subarray(start, start + dim);
    });
  }

  #substitutesOfWord(words, index, softmaxes, { topK, punctuation, sameWord, table }) {
    const vocabulary = this.#vocabulary, [top] = this.#forward([words], "top");
    const [left] = softmaxes[0].logProbabilities([this.#states(top, words.length, 0)[index]]);
    const [right] = softmaxes[1].logProbabilities([this.#states(top, words.length, 1)[index + 1]]);
    const frequencies = vocabulary.logFrequencies, here = words[index];
    const excluded = this.#excluded([here], punctuation);
    if (!sameWord) {
      const capitalized = here.slice(0, 1).toUpperCase() + here.slice(1).toLowerCase();
      for (const spelling of [here, here.toLowerCase(), here.toUpperCase(), capitalized]) excluded.add(vocabulary.id(spelling));
    }
    const related = table && !isPunctuation(here) ? table.relate(vocabulary, [here]) : null;
    if (related && !sameWord) {
      const stem = stemOf(here), start = stem.slice(0, 2);
      vocabulary.words.forEach((word, id) => {
        if (word.slice(0, 2).toLowerCase() === start && stemOf(word) === stem) excluded.add(id);
      });
    }
    const usage = related ? compareUsage(softmaxes, vocabulary, here) : null;
    const scores = Float64Array.from(left, (score, id) => {
      if (excluded.has(id)) return -Infinity;
      if (!related) return score + right[id] - frequencies[id];
      const cost = isUpper(vocabulary.words[id]) === isUpper(here) ? 0 : OTHER_CASE;
      return score + right[id] - FREQUENCY * frequencies[id] + RELATEDNESS * related[id] + USAGE * usage[id] - cost;
    });
    const total = logSum(scores);
    return findBest(scores, topK)
      .filter((id) => scores[id] > -Infinity)
      .map((id) => ({ word: vocabulary.words[id], logProbability: scores[id] - total }));
  }

  #excluded(here, punctuation) {
    const { words, special, ids } = this.#vocabulary;
    const excluded = new Set(Object.values(special).map((word) => ids.get(word)));
    const withoutPunctuation = !punctuation && !here.every(isPunctuation), withoutClitics = !here.every(isClitic);
    words.forEach((word, id) => {
      if ((withoutPunctuation && isPunctuation(word)) || (withoutClitics && isClitic(word))) excluded.add(id);
    });
    return excluded;
  }

  /** Fill a span from the left and from the right; score the runs by both directions and by static vectors. */
  #substitutesOfRun(tokens, [start, end], softmaxes, { topK, punctuation, sameWord, table }) {
    const vocabulary = this.#vocabulary, frequencies = vocabulary.logFrequencies, here = tokens.slice(start, end);
    const [before, after] = [tokens.slice(0, start), tokens.slice(end)], excluded = this.#excluded(here, punctuation);
    const spell = (run) => run.map((id) => vocabulary.words[id]), width = Math.max(BEAM, topK + 1), runs = new Map();
    const related = table?.relate(vocabulary, here), share = BEAM_RELATEDNESS / (2 * here.length);
    const costs = frequencies.map((frequency, id) => frequency / 2 - (related ? share * related[id] : 0));
    for (const side of [0, 1]) {
      let beam = [{ score: 0, run: [] }];
      for (let step = 0; step < here.length; step++) {
        const rows = beam.map(({ run }) => (side ? [...spell(run), ...after] : [...before, ...spell(run)]));
        const tops = this.#forward(rows, "top");
        const states = tops.map((top, number) => this.#states(top, rows[number].length, side)[side ? 0 : rows[number].length]);
        const scores = new Float64Array(beam.length * vocabulary.words.length).fill(-Infinity);
        softmaxes[side].logProbabilities(states).forEach((values, number) => {
          values.forEach((value, id) => {
            if (!excluded.has(id)) scores[number * values.length + id] = beam[number].score + value - costs[id];
          });
        });
        beam = findBest(scores, width).filter((place) => scores[place] > -Infinity).map((place) => {
          const id = place % vocabulary.words.length, { run } = beam[Math.floor(place / vocabulary.words.length)];
          return { score: scores[place], run: side ? [id, ...run] : [...run, id] };
        });
      }
      for (const { run } of beam) runs.set(run.join(), run);
    }
    if (!sameWord) runs.delete(here.map((token) => vocabulary.id(token)).join());
    const filled = [...runs.values()], rows = [here, ...filled.map(spell)].map((run) => [...before, ...run, ...after]);
    const tops = this.#forward(rows, "top");
    const vectors = tops.map((top) => normalize(sumOfSpan(this.#states(top, tokens.length, 0), this.#states(top, tokens.length, 1), start, end)));
    const scores = Float64Array.from(filled, (run, number) => {
      let total = 0;
      for (const side of [0, 1]) {
        const states = this.#states(tops[number + 1], tokens.length, side).slice(start + side, end + side);
        for (const value of scoreStates(softmaxes[side], states, run)) total += value;
      }
      const frequency = run.reduce((sum, id) => sum + frequencies[id], 0);
      if (!table) return total - frequency;
      total += RUN_RELATEDNESS * dot(table.mean(spell(run)), table.mean(here)) + RUN_USAGE * dot(vectors[number + 1], vectors[0]);
      return total - RUN_FREQUENCY * frequency;
    });
    const total = logSum(scores);
    return findBest(scores, topK).map((number) => ({ word: this.#tokenization.join(spell(filled[number])), logProbability: scores[number] - total }));
  }

  /** Return the weighted sums of static vectors and of centred layer-0 vectors, without the common directions. */
  async #encodeByWeights(read) {
    const table = await this.#table(), { dim } = table, word = this.#network.dim;
    const scale = table.floats("sentence_scale"), mean = table.floats("word_mean");
    const components = [table.floats("sentence_components"), table.floats("word_components")];
    return read.map(({ tokens }) => {
      const halves = [new Float32Array(dim), new Float32Array(word)];
      const encoded = this.#network.encode([...new Set(tokens)]), order = new Map([...new Set(tokens)].map((token, row) => [token, row]));
      for (const token of tokens) {
        const entry = table.lookUp(token), centred = normalize(encoded[order.get(token)].map((value, i) => value - mean[i]));
        for (let i = 0; i < dim; i++) halves[0][i] += entry.bytes[i] * entry.scale * entry.weight * scale[i];
        for (let i = 0; i < word; i++) halves[1][i] += centred[i] * entry.weight;
      }
      const removed = halves.map((half, side) => normalize(removeDirections(half, components[side])));
      return normalize(Float32Array.from([...removed[0], ...removed[1]]));
    });
  }

  /** Return the output of the sentence head: attention and maximum over mixed layers, and the static vectors. */
  async #encodeByHead(read) {
    const head = await this.#open("sentence", async () => {
      const arrays = readSafetensors(await this.#folder.read("sentence.safetensors"));
      return new Map([...arrays.keys()].map((name) => [name, floatsOf(arrays, name)]));
    });
    const [queries, rarity, projection, bias] = ["queries", "rarity", "projection", "bias"].map((name) => head.get(name));
    const exponents = Array.from(head.get("layer_weights"), Math.exp), total = exponents.reduce((sum, value) => sum + value, 0);
    const rows = this.#network.forward(read.map(({ tokens }) => tokens), [exponents.map((value) => value / total)]);
    const numHeads = rarity.length, size = this.dim, staticDim = projection.length / bias.length - (numHeads + 1) * size;
    const table = staticDim ? await this.#table() : null;
    return read.map(({ tokens }, number) => {
      const vector = new Float32Array(bias.length), features = new Float32Array((numHeads + 1) * size + staticDim);
      if (!tokens.length) return vector;
      const vectors = tokens.map((_, token) => rows[number].subarray((token + 1) * size, (token + 2) * size));
      const entries = tokens.map((token) => table?.lookUp(token)), weights = entries.map((token) => token?.weight ?? 1);
      for (let head = 0; head < numHeads; head++) {
        const query = queries.subarray(head * size, (head + 1) * size);
        const scores = vectors.map((values, token) => dot(values, query) + rarity[head] * Math.log(weights[token] + RARITY_FLOOR));
        const sum = logSum(scores);
        vectors.forEach((values, token) => {
          for (let i = 0; i < size; i++) features[head * size + i] += Math.exp(scores[token] - sum) * values[i];
        });
      }
      for (let i = 0; i < size; i++) features[numHeads * size + i] = vectors.reduce((peak, values) => Math.max(peak, values[i]), -Infinity);
      const summed = new Float32Array(staticDim);
      entries.forEach((token, place) => {
        // Words outside the table have weights, but no vectors.
        if (token && token.row !== NO_ROW) for (let i = 0; i < staticDim; i++) summed[i] += weights[place] * token.bytes[i] * token.scale;
      });
      features.set(normalize(summed), (numHeads + 1) * size);
      for (let row = 0; row < vector.length; row++) vector[row] = bias[row] + dot(features, projection.subarray(row * features.length, (row + 1) * features.length));
      return normalize(vector);
    });
  }

  /* Components that are opened on first use. */

  #open(name, make) {
    if (!this.#opened.has(name)) {
      const opening = make();
      this.#opened.set(name, opening);
      opening.catch(() => this.#opened.delete(name)); // the next call tries again
    }
    return this.#opened.get(name);
  }

  #softmaxes() {
    return this.#open("softmax", async () => {
      if (!this.predictsWords) throw new ElmoError("This model has no softmax or no vocabulary, so it predicts no words; use one that was trained here.");
      const arrays = this.#arrays ?? readSafetensors(await this.#folder.read("softmax.safetensors"));
      this.#arrays = null;
      const left = new Softmax(arrays, "softmax", this.#network);
      return [left, arrays.has("right_to_left_softmax.weight") ? new Softmax(arrays, "right_to_left_softmax", this.#network) : left];
    });
  }

  #table() {
    return this.#open("context", async () => {
      const [bytes, words] = await Promise.all([this.#folder.read("context.safetensors"), this.#folder.lines("context.txt")]);
      return new StaticTable(this.config.context.settings, words, readSafetensors(bytes), this.#network);
    });
  }

  #meaning() {
    return this.#open("meaning", async () => {
      const wanted = (this.config.context.settings.substitutes ?? 0) > 0 && this.predictsWords;
      const [table, softmaxes] = await Promise.all([this.#table(), wanted ? this.#softmaxes() : null]);
      return new Meaning(table, this.#network, this.#vocabulary, softmaxes);
    });
  }
}

/** Return the ranges of tokens of each word, or of each word of each phrase. */
function wordSpans(ranges, spans, number) {
  if (!spans) return ranges.map((range) => [range]);
  return spans.map(([start, end]) => {
    if (!(0 <= start && start < end && end <= ranges.length)) {
      throw new ElmoError(`The span [${start}, ${end}] is out of range; sentence ${number} has ${ranges.length} words.`);
    }
    return ranges.slice(start, end);
  });
}

function scoreStates(softmax, states, ids) {
  return states.map((state, place) => Math.min(0, softmax.logProbabilities([state])[0][ids[place]]));
}

function meanOfRows({ shape: [numWords, dim], data }) {
  const mean = new Float32Array(dim);
  for (let i = 0; i < data.length; i++) mean[i % dim] += data[i] / numWords;
  return mean;
}

function removeDirections(vector, directions) {
  const removed = Float32Array.from(vector);
  for (let start = 0; start < directions.length; start += vector.length) {
    const direction = directions.subarray(start, start + vector.length), share = dot(vector, direction);
    for (let i = 0; i < vector.length; i++) removed[i] -= share * direction[i];
  }
  return removed;
}
