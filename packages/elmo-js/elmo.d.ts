/** An error caused by the caller; the message names the value, the rule and the fix. */
export class ElmoError extends Error {}

/** A word of a text; offsets are in UTF-16 code units, as `String.prototype.slice` counts. */
export interface Word {
  text: string;
  start?: number;
  end?: number;
}

/** A string, which is tokenized, or a list of words. */
export type Sentence = string | string[];
export type Span = [start: number, end: number];
/** "auto" is "meaning" for a model with a context layer, else "average"; a number is one layer, a list weights of all. */
export type Layers = "auto" | "average" | "top" | "all" | "concat" | "meaning" | number | number[];

/** Vectors of one sentence, (words, dimensions), or (layers, words, dimensions) for "all", in row-major order. */
export interface Vectors {
  words: Word[];
  shape: number[];
  data: Float32Array;
  /** The vector of a word or span; for "all", of one layer. */
  vector(word: number, layer?: number): Float32Array;
}

export interface Substitute {
  word: string;
  logProbability: number;
}

/** Natural log probabilities of the tokens of a sentence and of its boundaries. */
export interface Score {
  words: string[];
  leftToRight: number[];
  rightToLeft: number[];
  end: number;
  begin: number;
  isUnknown: boolean[];
  perplexity: number;
}

export interface SubstituteOptions {
  /** The index of the word, if none is in [brackets], or a range of words. */
  index?: number | Span;
  topK?: number;
  punctuation?: boolean;
  sameWord?: boolean;
  addPeriod?: boolean;
}

export class Elmo {
  /** Open a model folder: an address relative to the page, or in Node.js a path. */
  static load(
    source: string | URL,
    options?: { onProgress?: (progress: { file: string; loaded: number; total: number }) => void },
  ): Promise<Elmo>;
  readonly config: any;
  readonly dim: number;
  readonly numLayers: number;
  readonly hasContext: boolean;
  readonly predictsWords: boolean;
  tokenize(text: string): Word[];
  /** With `spans`, half-open ranges of words, the vectors of phrases instead of words. */
  embed(sentence: string, options?: { layers?: Layers; spans?: Span[] }): Promise<Vectors>;
  embed(sentences: Sentence[], options?: { layers?: Layers; spans?: Span[][] }): Promise<Vectors[]>;
  encode(sentence: string): Promise<Float32Array>;
  encode(sentences: Sentence[]): Promise<Float32Array[]>;
  /** The cosine of two words, each in [brackets] in its sentence or named by an index. */
  similarity(
    first: Sentence,
    second: Sentence,
    options?: { layers?: Layers; indexA?: number | Span; indexB?: number | Span },
  ): Promise<number>;
  substitutes(sentence: Sentence, options?: SubstituteOptions): Promise<Substitute[]>;
  score(sentence: string): Promise<Score>;
  score(sentences: Sentence[]): Promise<Score[]>;
}

export function tokenize(text: string, scripts?: string[]): Word[];
export function readMarked(sentence: string): { text: string; start: number; end: number };
export function readSafetensors(buffer: ArrayBuffer): Map<string, { dtype: string; shape: number[]; data: ArrayBufferView }>;
export function cosine(a: ArrayLike<number>, b: ArrayLike<number>): number;
