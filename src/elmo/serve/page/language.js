// The language of the page: the visitor's choice, or the browser's language.
import { STRINGS } from "./strings.js";
import { recall, remember } from "./storage.js";

let current = "en";

const IS_TOUCH = matchMedia("(hover: none)").matches;

export function chooseLanguage(requested) {
  const wanted = requested ?? recall("elmo-language") ?? (navigator.language.startsWith("zh") ? "zh" : "en");
  current = Object.hasOwn(STRINGS, wanted) ? wanted : "en";
  document.documentElement.lang = current === "zh" ? "zh-CN" : "en";
  for (const element of document.querySelectorAll("[data-text]")) element.textContent = say((IS_TOUCH && element.dataset.touch) || element.dataset.text);
  for (const element of document.querySelectorAll("[data-label]")) element.setAttribute("aria-label", say(element.dataset.label));
  const next = otherLanguage();
  const button = document.getElementById("language");
  button.textContent = STRINGS[next].name;
  button.lang = next;
}

export function switchLanguage() {
  remember("elmo-language", otherLanguage());
  chooseLanguage(otherLanguage());
}

export function language() {
  return current;
}

export function say(name, values = {}) {
  return STRINGS[current][name].replace(/\{(\w+)\}/g, (_, key) => values[key]);
}

function otherLanguage() {
  return current === "en" ? "zh" : "en";
}
