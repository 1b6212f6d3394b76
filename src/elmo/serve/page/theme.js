// Runs before the page is drawn, so that a chosen theme does not flash in late.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("elmo-theme");
  } catch {
    // Storage may be forbidden; the system's theme is used then.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
