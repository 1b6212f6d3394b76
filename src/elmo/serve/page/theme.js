// Runs before the page is drawn, to avoid a flash of the other theme.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("elmo-theme");
  } catch {
    // Storage may be blocked; the system's theme is used then.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
