// Which model this is, and how it was trained, from its card and its configuration.
import { byId, make } from "./dom.js";
import { language, say } from "./language.js";

export function showAbout({ name, card, dim, num_layers: layers }) {
  const facts = [
    card.language && languageName(card.language),
    say("factLayers", { layers, dim }),
    say("factParameters", countParameters(card.num_parameters)),
    card.num_words && say("factWords", { count: card.num_words.toLocaleString(language() === "zh" ? "zh-CN" : "en-US") }),
    say(card.reads === "characters" ? "factCharacters" : "factWordTable"),
    card.license && say("factLicense", { license: licenseName(card.license) }),
  ].filter(Boolean);
  byId("model-name").textContent = name;
  byId("facts").replaceChildren(...facts.map((fact) => make("li", {}, fact)));
  const isTranslated = language() === "zh" && (card.training_zh ?? card.summary_zh);
  const [summary, training] = isTranslated ? [card.summary_zh, card.training_zh] : [card.summary, card.training];
  const text = training ?? summary;
  const first = text?.match(/^.+?(?:[.](?=\s|$)|。)/)?.[0] ?? text;
  byId("trained").textContent = first ?? say(card.encoder === "lstm" ? "trainedUnknown" : "trainedUnknownOther");
  const written = isTranslated ? "zh" : "en";
  byId("trained").lang = first ? written : "";
  const rest = [summary, training].filter((each) => each && each !== first);
  byId("card-more").hidden = !rest.length;
  byId("card-text").replaceChildren(...rest.map((each) => make("p", { lang: written }, each)));
}

// Millions, and the tens of thousands in which Chinese counts.
function countParameters(count) {
  const digits = (value) => value.toFixed(value < 10 ? 1 : 0);
  return { millions: digits(count / 1e6), wan: digits(count / 1e4) };
}

// cc-by-sa-3.0 as people write it: CC BY-SA 3.0.
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
