// The cosine of two marked words in each layer and in the mix, compared with the cosine without context.
import { byId, draw, make } from "./dom.js";
import { say } from "./language.js";
import { exists, state, textOf } from "./state.js";
import { cosine, distance, mean, norm, show, vectorOf } from "./vectors.js";

const WIDTH = 460;
const HEIGHT = 200;
const EDGE = { left: 40, right: 16, top: 22, bottom: 28 };

export function drawComparison(mixes) {
  const [a, b] = state.marks;
  if (!exists(a) || !exists(b)) {
    byId("pair").textContent = say("pickTwo");
    byId("chart").replaceChildren();
    byId("numbers").replaceChildren();
    return null;
  }
  const words = [a, b].map(textOf);
  const [first, second] = [a, b].map(layersOf);
  const [mixA, mixB] = [a, b].map((mark) => vectorOf(mixes, mark));
  const byLayer = first.map((vector, layer) => cosine(vector, second[layer]));
  const mixed = cosine(mixA, mixB);
  const kind = state.byMeaning && state.read[a[0]].meaning ? "meaning" : "mix";
  showPair(words, a, b);
  byId("chart").replaceChildren(drawChart(words, byLayer, mixed, kind));
  byId("numbers").replaceChildren(
    entry(kind === "meaning" ? "cosineMeaning" : "cosine", show(mixed, 3), "pair-cosine"),
    entry("distance", distance(mixA, mixB).toFixed(2), "pair-distance"),
    entry("lengths", `${norm(mixA).toFixed(1)} · ${norm(mixB).toFixed(1)}`, "pair-lengths"),
  );
  return { kind, cosine: mixed };
}

// Return the vectors of a mark in each layer.
function layersOf([sentence, start, end]) {
  const words = state.read[sentence].layers.slice(start, end);
  return words[0].map((_, layer) => mean(words.map((layers) => layers[layer])));
}

function entry(name, value, id) {
  return make("div", {}, make("dt", {}, say(name)), make("dd", { id }, value));
}

function showPair([wordA, wordB], a, b) {
  const parts = say("pair", { a: "\u0001", b: "\u0002", i: a[0] + 1, j: b[0] + 1 }).split(/([\u0001\u0002])/);
  const marks = { "\u0001": ["mark-a", `A ${wordA}`], "\u0002": ["mark-b", `B ${wordB}`] };
  byId("pair").replaceChildren(
    ...parts.map((part) => (part in marks ? make("span", { class: marks[part][0] }, marks[part][1]) : part)),
  );
}

function drawChart([wordA, wordB], byLayer, mixed, kind) {
  const lowest = Math.min(0, Math.floor(Math.min(...byLayer, mixed) * 2) / 2);
  const x = (step) => EDGE.left + 26 + (step * (WIDTH - EDGE.left - EDGE.right - 52)) / byLayer.length;
  const y = (value) => EDGE.top + ((1 - value) / (1 - lowest)) * (HEIGHT - EDGE.top - EDGE.bottom);
  const values = byLayer.map((value, layer) => `${say("layer", { number: layer })} ${show(value, 3)}`).join(", ");
  const label = say(kind === "meaning" ? "chartMeaning" : "chartText", { a: wordA, b: wordB, values, mix: show(mixed, 3) });
  const chart = draw("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
  for (let value = lowest; value <= 1.001; value += 0.5) {
    chart.append(
      draw("line", { class: "grid", x1: EDGE.left, x2: WIDTH - EDGE.right, y1: y(value), y2: y(value) }),
      draw("text", { x: EDGE.left - 8, y: y(value) + 4, "text-anchor": "end" }, show(value, 1)),
    );
  }
  const still = y(byLayer[0]);
  chart.append(
    draw("line", { class: "static", x1: EDGE.left, x2: WIDTH - EDGE.right, y1: still, y2: still }),
    draw("text", { x: WIDTH - EDGE.right, y: still - 7, "text-anchor": "end" }, say("staticLine")),
    draw("polyline", { class: "line", points: byLayer.map((value, layer) => `${x(layer)},${y(value)}`).join(" ") }),
  );
  byLayer.forEach((value, layer) => {
    chart.append(
      draw("circle", { class: "point", cx: x(layer), cy: y(value), r: 6 }),
      place(x(layer), y(value), value, still, lowest === 0 ? y(0) : HEIGHT),
      draw("text", { x: x(layer), y: HEIGHT - 8, "text-anchor": "middle" }, say("layer", { number: layer })),
    );
  });
  const [mixX, mixY] = [x(byLayer.length), y(mixed)];
  chart.append(
    draw("path", { class: "mix", d: `M${mixX} ${mixY - 8}l8 8-8 8-8-8z` }),
    place(mixX, mixY, mixed, still, lowest === 0 ? y(0) : HEIGHT),
    draw("text", { x: mixX, y: HEIGHT - 8, "text-anchor": "middle" }, say(kind)),
  );
  return chart;
}

// Draw the label below its point, or above it if there is no room.
function place(x, y, value, still, floor) {
  const below = y + 22 < floor;
  return draw("text", { class: "value", x, y: below ? y + 21 : y - 12, "text-anchor": "middle" }, show(value));
}
