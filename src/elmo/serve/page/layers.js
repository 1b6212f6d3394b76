// The sliders for s_0 … s_L and γ, and presets of common mixes.
import { byId, make } from "./dom.js";
import { say } from "./language.js";
import { state } from "./state.js";
import { shares } from "./vectors.js";

const SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉";

export function drawSliders(changed, hasContext) {
  const mixed = () => {
    state.byMeaning = false;
    changed();
  };
  const last = state.weights.length - 1;
  const rows = state.weights.map((weight, layer) =>
    drawSlider(`s-${layer}`, `s${subscript(layer)}  ${describe(layer, last)}`, weight, { min: 0, max: 1 }, "", (value) => {
      state.weights[layer] = value;
      mixed();
    }),
  );
  rows.push(
    drawSlider("gamma", `γ  ${say("gamma")}`, state.gamma, { min: 0.1, max: 3 }, "gamma", (value) => {
      state.gamma = value;
      mixed();
    }),
  );
  byId("sliders").replaceChildren(...rows);
  const mixes = {
    average: state.weights.map(() => 0.5),
    top: state.weights.map((_, layer) => (layer === last ? 1 : 0)),
    staticOnly: state.weights.map((_, layer) => (layer === 0 ? 1 : 0)),
  };
  byId("presets").replaceChildren(
    ...(hasContext ? [drawMeaning(changed)] : []),
    ...Object.entries(mixes).map(([name, weights]) =>
      make("button", { class: "quiet", type: "button", onclick: () => useMix(weights, mixed) }, say(name)),
    ),
  );
  showShares();
}

function drawMeaning(changed) {
  const use = () => {
    state.byMeaning = true;
    changed();
  };
  return make("button", { id: "by-meaning", class: "quiet", type: "button", title: say("meaningHint"), onclick: use }, say("meaning"));
}

export function showShares() {
  const isOff = state.byMeaning && byId("by-meaning") !== null;
  byId("by-meaning")?.setAttribute("aria-pressed", String(state.byMeaning));
  for (const input of byId("sliders").querySelectorAll("input")) input.disabled = isOff;
  byId("mix-hint").textContent = say(isOff ? "mixOff" : "gammaHint");
  shares(state.weights).forEach((share, layer) => {
    byId(`s-${layer}-value`).textContent = share.toFixed(2);
  });
  byId("gamma-value").textContent = state.gamma.toFixed(2);
}

function drawSlider(id, text, value, range, kind, changed) {
  const input = make("input", {
    type: "range", id, step: 0.01, ...range, value, oninput: () => changed(Number(input.value)),
  });
  return make("label", { class: `slider ${kind}` }, make("span", {}, text), input, make("output", { id: `${id}-value`, for: id }));
}

function useMix(weights, changed) {
  state.weights = [...weights];
  weights.forEach((weight, layer) => {
    byId(`s-${layer}`).value = String(weight);
  });
  changed();
}

function describe(layer, last) {
  if (layer === 0) return say("layerZero");
  return say(layer === last ? "layerTop" : "layerMiddle");
}

function subscript(number) {
  return [...String(number)].map((digit) => SUBSCRIPTS[Number(digit)]).join("");
}
