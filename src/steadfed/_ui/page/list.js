/* The list of runs: searched, sorted and paged by the server; ticked ones are opened side by side. */

import { ask, badge, listen, make, progress } from "./stream.js";

const MOST = 10; // runs side by side; the server says so too
const SIZE = 50;
const COLUMNS = [
  ["name", "Run", ""],
  ["state", "State", ""],
  ["progress", "Rounds", ""],
  ["accuracy", "Accuracy", "number"],
  ["rule", "Rule", ""],
  ["attack", "Attack", ""],
  ["data", "Data", ""],
  ["changed", "Last round", ""],
];
const FALLING = new Set(["accuracy", "changed", "progress"]); // the largest first, when asked for the first time
const ticked = new Map(); // id to name; kept when pages are turned

const view = { search: "", state: "", sort: "-changed", page: 1 };
let parts = null;
let asked = 0;

function ago(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const past = Math.max(0, Math.round(Date.now() / 1000 - seconds));
  const [size, name] = units.find(([each]) => past >= each) || [1, "s"];
  return `${Math.floor(past / size)} ${name} ago`;
}

function tick(run) {
  const box = make("input", { type: "checkbox", "aria-label": `Compare ${run.name}` });
  box.checked = ticked.has(run.id);
  box.addEventListener("change", () => {
    if (box.checked && ticked.size >= MOST) {
      box.checked = false;
      parts.compared.textContent = `At most ${MOST} runs can be compared.`;
      return;
    }
    if (box.checked) ticked.set(run.id, run.name);
    else ticked.delete(run.id);
    drawTicked();
  });
  return make("td", { class: "tick" }, box);
}

function cell(label, ...children) {
  return make("td", { "data-label": label }, ...children);
}

function accuracy(value) {
  return window.steadfed.written(value, "percent");
}

function row(run) {
  const name = make("a", { href: `/run/${run.id}`, class: "run-name" }, run.name);
  const best = run.best === null ? null : `best ${accuracy(run.best)}`;
  return make(
    "tr",
    { "data-run": run.id },
    tick(run),
    make("td", { class: "name" }, name, run.above ? make("span", { class: "above" }, run.above) : null),
    cell("State", badge(run.state)),
    cell("Rounds", progress(run.played, run.planned)),
    make("td", { class: "number", "data-label": "Accuracy", title: best }, accuracy(run.accuracy)),
    cell("Rule", run.rule || "–"),
    cell("Attack", run.deployed ? "deployment" : run.attack || "–"),
    cell("Data", run.data || "–"),
    make("td", { "data-label": "Last round", title: new Date(1000 * run.changed).toLocaleString("en-GB") }, ago(run.changed)),
  );
}

function drawTicked() {
  const many = ticked.size;
  parts.compare.hidden = many === 0;
  parts.compared.textContent = many === 1 ? `${[...ticked.values()][0]}: tick another to compare` : `${many} runs ticked`;
  parts.open.toggleAttribute("data-off", many < 2);
  if (many < 2) parts.open.removeAttribute("href");
  else parts.open.setAttribute("href", `/compare?runs=${[...ticked.keys()].join(",")}`);
}

function empty(answer) {
  if (answer.total) return "No run has all of these words.";
  return `There is no run in ${answer.folder} yet. \`steadfed run\` makes one, and it appears here.`;
}

function draw(answer) {
  document.getElementById("subtitle").textContent =
    `${answer.folder} · ${answer.total.toLocaleString("en")} ${answer.total === 1 ? "run" : "runs"}`;
  const focused = document.activeElement?.closest("tr")?.getAttribute("data-run");
  const boxed = document.activeElement?.matches("input[type=checkbox]");
  const rows = answer.runs.map(row);
  if (!rows.length) rows.push(make("tr", {}, make("td", { colspan: COLUMNS.length + 1, class: "empty" }, empty(answer))));
  parts.rows.replaceChildren(...rows);
  if (focused) parts.rows.querySelector(`[data-run="${focused}"] ${boxed ? "input" : "a"}`)?.focus();
  view.page = answer.page;
  parts.pager.hidden = answer.pages < 2;
  parts.where.textContent = `Page ${answer.page} of ${answer.pages}, ${answer.matching.toLocaleString("en")} runs`;
  parts.before.disabled = answer.page <= 1;
  parts.after.disabled = answer.page >= answer.pages;
  for (const option of parts.states.options) {
    const many = option.value ? answer.states[option.value] : Object.values(answer.states).reduce((a, b) => a + b, 0);
    option.textContent = `${option.value || "all states"} (${many.toLocaleString("en")})`;
  }
  for (const heading of parts.headings) {
    const name = heading.getAttribute("data-sort");
    const way = view.sort === name ? "ascending" : view.sort === `-${name}` ? "descending" : "none";
    heading.setAttribute("aria-sort", way);
  }
}

async function load() {
  const number = (asked += 1);
  const wanted = new URLSearchParams({ ...view, size: SIZE });
  try {
    const answer = await ask(`/api/runs?${wanted}`);
    if (number === asked) draw(answer); // answers may overtake each other
  } catch (error) {
    // the banner says that the connection is lost; the list comes with the next event
  }
}

function changed(key, value) {
  view[key] = value;
  if (key !== "page") view.page = 1;
  remember();
  load();
}

function remember() {
  const kept = new URLSearchParams();
  for (const [key, value] of Object.entries(view)) {
    if (value && !(key === "page" && value === 1) && !(key === "sort" && value === "-changed")) kept.set(key, value);
  }
  history.replaceState(null, "", `${location.pathname}${kept.size ? `?${kept}` : ""}`);
}

function heading([name, title, kind]) {
  const button = make("button", { type: "button" }, title);
  button.addEventListener("click", () => {
    const first = FALLING.has(name) ? `-${name}` : name;
    const other = FALLING.has(name) ? name : `-${name}`;
    changed("sort", view.sort === first ? other : first);
  });
  return make("th", { scope: "col", "data-sort": name, class: kind || null }, button);
}

function build(main) {
  const search = make("input", { type: "search", placeholder: "Search name, rule, attack, data", "aria-label": "Search runs" });
  search.value = view.search;
  let timer = null;
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => changed("search", search.value.trim()), 200);
  });
  const names = ["", "running", "complete", "interrupted", "not begun", "damaged"];
  const states = make("select", { "aria-label": "State" }, ...names.map((name) => make("option", { value: name }, name || "all states")));
  states.value = view.state;
  states.addEventListener("change", () => changed("state", states.value));
  const headings = COLUMNS.map(heading);
  const rows = make("tbody");
  const table = make("table", { class: "runs" }, make("thead", {}, make("tr", {}, make("td", {}), ...headings)), rows);
  const before = make("button", { type: "button" }, "‹ Previous");
  const after = make("button", { type: "button" }, "Next ›");
  before.addEventListener("click", () => changed("page", view.page - 1));
  after.addEventListener("click", () => changed("page", view.page + 1));
  const where = make("span", {});
  const pager = make("nav", { class: "pager", "aria-label": "Pages", hidden: true }, before, where, after);
  const compared = make("span", { role: "status" });
  const open = make("a", { class: "action", id: "compare" }, "Compare");
  const clear = make("button", { type: "button" }, "Clear");
  clear.addEventListener("click", () => {
    ticked.clear();
    drawTicked();
    load();
  });
  const compare = make("div", { class: "compare", hidden: true }, compared, open, clear);
  parts = { rows, headings, states, pager, where, before, after, compare, compared, open };
  main.replaceChildren(
    make("div", { class: "tools list-tools" }, search, states),
    make("div", { class: "panel listed" }, make("div", { class: "scrolled" }, table), pager),
    compare,
  );
}

export function showList(main) {
  const wanted = new URLSearchParams(location.search);
  for (const key of ["search", "state", "sort"]) view[key] = wanted.get(key) || view[key];
  view.page = Number(wanted.get("page")) || 1;
  document.title = "Runs – steadfed";
  document.getElementById("title").textContent = "Runs";
  build(main);
  load();
  listen("/api/events", { changed: load });
}
