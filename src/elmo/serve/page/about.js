// The description of the model and its limits, from its card and its configuration.
import { byId, make } from "./dom.js";
import { language, say } from "./language.js";

export function showAbout({ name, card, dim, num_layers: layers, has_context: hasContext }) {
  const languageOf = card.language ? say("aboutOf", { language: languageName(card.language) }) : "";
  const facts = [
    say("factLayers", { layers, dim }),
    card.num_words && say("factWords", { count: card.num_words.toLocaleString(language() === "zh" ? "zh-CN" : "en-US") }),
    say(card.reads === "characters" ? "factCharacters" : "factWordTable"),
    card.license && say("factLicense", { license: licenseName(card.license) }),
  ].filter(Boolean);
  byId("model-name").textContent = name;
  byId("about").textContent = say("aboutLine", { language: languageOf });
  byId("limits").hidden = !hasContext;
  byId("facts").replaceChildren(...facts.map((fact) => make("li", {}, fact)));
}

// Format a license id: cc-by-sa-3.0 -> CC BY-SA 3.0.
function licenseName(license) {
  return license.replace(/^cc-(.+)-([\d.]+)$/, (_, terms, version) => `CC ${terms.toUpperCase()} ${version}`);
}

function languageName(code) {
  try {
    return new Intl.DisplayNames([language() === "zh" ? "zh-CN" : "en"], { type: "language" }).of(code);
  } catch {
    return code;
  }
}
