// The button that switches between the system's theme, light and dark.
import { say } from "./language.js";
import { remember } from "./storage.js";

const THEMES = [null, "light", "dark"];
const NAMES = ["themeAuto", "themeLight", "themeDark"];

export function showTheme() {
  document.getElementById("theme").textContent = say(NAMES[position()]);
}

export function switchTheme() {
  const next = THEMES[(position() + 1) % THEMES.length];
  if (next) document.documentElement.dataset.theme = next;
  else delete document.documentElement.dataset.theme;
  remember("elmo-theme", next);
  showTheme();
}

function position() {
  return Math.max(0, THEMES.indexOf(document.documentElement.dataset.theme ?? null));
}
