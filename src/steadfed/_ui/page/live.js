/* Which page this is, and its colours. */

import { showList } from "./list.js";
import { showRuns } from "./run.js";

const KEPT = "steadfed-theme";

function themes() {
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const kept = localStorage.getItem(KEPT);
  if (kept) root.setAttribute("data-theme", kept);
  dark.addEventListener("change", () => window.steadfed.repaint());
  document.getElementById("theme").addEventListener("click", () => {
    const now = root.getAttribute("data-theme") || (dark.matches ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    root.setAttribute("data-theme", next);
    localStorage.setItem(KEPT, next);
    window.steadfed.repaint();
  });
}

function show() {
  const main = document.getElementById("main");
  const run = location.pathname.match(/^\/run\/([^/]+)$/);
  const compared = new URLSearchParams(location.search).get("runs");
  if (run) showRuns(main, [decodeURIComponent(run[1])]);
  else if (location.pathname === "/compare" && compared) showRuns(main, compared.split(",").filter(Boolean));
  else showList(main);
}

themes();
show();
