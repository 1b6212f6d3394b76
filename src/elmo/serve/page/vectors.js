// Decode the vectors that the server sends, and compute mixes and cosines.

export function decode(sentence) {
  // shape [L+1, T, 2D] for all layers, else [T, dimensions]; little-endian float32 bytes, or values
  const [numLayers, numWords, dim] = sentence.shape.length === 3 ? sentence.shape : [1, ...sentence.shape];
  const values = sentence.values ?? readFloats(sentence.vectors);
  const vector = (layer, word) => {
    const start = (layer * numWords + word) * dim;
    return values.subarray(start, start + dim);
  };
  return Array.from({ length: numWords }, (_, word) =>
    Array.from({ length: numLayers }, (_, layer) => vector(layer, word)),
  );
}

function readFloats(base64) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

export function shares(weights) {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => (total > 0 ? weight / total : 1 / weights.length));
}

export function mix(layers, weights, gamma) {
  const mixed = new Float64Array(layers[0].length);
  shares(weights).forEach((share, layer) => {
    const vector = layers[layer];
    for (let i = 0; i < mixed.length; i += 1) mixed[i] += gamma * share * vector[i];
  });
  return mixed;
}

export function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i += 1) sum += a[i] * b[i];
  return sum;
}

export function norm(a) {
  return Math.sqrt(dot(a, a));
}

export function cosine(a, b) {
  const lengths = norm(a) * norm(b);
  return lengths > 0 ? Math.max(-1, Math.min(1, dot(a, b) / lengths)) : 0;
}

// Format with two decimals, a real minus sign, and no minus before zero.
export function show(value, digits = 2) {
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

export function distance(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i += 1) sum += (a[i] - b[i]) ** 2;
  return Math.sqrt(sum);
}

export function mean(vectors) {
  if (vectors.length === 1) return vectors[0];
  const total = new Float64Array(vectors[0].length);
  for (const vector of vectors) for (let i = 0; i < total.length; i += 1) total[i] += vector[i] / vectors.length;
  return total;
}

// Return the vector of a range of words: the server's phrase vector if there is one, else the mean of the words.
export function vectorOf(mixes, [sentence, start, end]) {
  const { vectors, phrases } = mixes[sentence];
  return phrases.get(`${start},${end}`) ?? mean(vectors.slice(start, end));
}
