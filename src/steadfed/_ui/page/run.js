/* The page of a run, or of several side by side: panels that follow the runs, drawn when they are scrolled to. */

import { badge, listen, make, progress } from "./stream.js";

const NEAR = "300px 0px";
const panels = new Map(); // key to { element, panel, seen, drawn, busy, stale }
let sections = "";
let watcher = null;

async function draw(part) {
  const waits = window.steadfed.isPlot(part.panel) && !part.seen; // text is there at once, to be searched and copied
  if (waits || part.busy) {
    part.stale = true;
    return;
  }
  part.busy = true;
  part.stale = false;
  if (part.drawn) await window.steadfed.updatePanel(part.element, part.panel);
  else await window.steadfed.drawPanel(part.element, part.panel);
  part.drawn = true;
  part.busy = false;
  if (part.stale) draw(part);
}

function sight(entries) {
  for (const entry of entries) {
    const part = panels.get(entry.target.id);
    if (!part) continue;
    part.seen = entry.isIntersecting;
    if (part.seen && part.panel && (part.stale || !part.drawn)) draw(part);
  }
}

function section(each) {
  const boxes = each.panels.map((key) => {
    const element = make("article", { id: key });
    panels.set(key, { element, panel: null, seen: false, drawn: false, busy: false, stale: false });
    return element;
  });
  const intro = make("p", { class: "intro" }, each.intro);
  intro.hidden = !each.intro;
  const title = make("h2", {}, make("a", { href: `#section-${each.key}` }, each.title));
  return make("section", { id: `section-${each.key}` }, title, intro, make("div", { class: "panels" }, ...boxes));
}

function facts(run, many) {
  const above = run.place === run.name ? null : make("span", { class: "above" }, run.place);
  const name = many ? make("a", { href: `/run/${run.id}` }, run.name) : above;
  return make("li", {}, name, badge(run.state), progress(run.played, run.planned));
}

function drawHead(head, page) {
  const many = head.runs.length > 1;
  document.title = `${head.title} – steadfed`;
  document.getElementById("title").textContent = head.title;
  document.getElementById("subtitle").textContent = head.subtitle;
  page.facts.replaceChildren(...head.runs.map((run) => facts(run, many)));
  page.download.setAttribute("href", `/report/${head.runs.map((run) => run.id).join(",")}.html`);
  page.download.hidden = false;
  window.steadfed.drawHeadlines(page.cards, head.headlines);
  page.cards.hidden = !head.headlines.length;
}

function fill(told) {
  for (const [key, panel] of Object.entries(told.panels)) {
    const part = panels.get(key);
    if (!part) continue;
    if (!part.panel) window.steadfed.frame(part.element, panel); // its place, until it is seen
    part.panel = panel;
    draw(part);
  }
}

function build(told, page) {
  const order = JSON.stringify(told.head.sections);
  if (order !== sections) {
    sections = order;
    panels.clear();
    watcher?.disconnect();
    watcher = new IntersectionObserver(sight, { rootMargin: NEAR });
    page.body.replaceChildren(...told.head.sections.map(section));
    panels.forEach((part) => watcher.observe(part.element));
  }
  page.gone.hidden = true;
  drawHead(told.head, page);
  fill(told);
}

export function showRuns(main, runs) {
  const page = {
    facts: make("ul", { class: "facts" }),
    cards: make("dl", { class: "cards", "aria-label": "Headlines", hidden: true }),
    body: make("div", { class: "sections" }),
    download: make("a", { class: "action", id: "download", download: true, hidden: true }, "Download the report"),
    gone: make("p", { class: "gone", role: "status", hidden: true }, "This run is not there (any more). If it comes back, it is shown again."),
  };
  const bar = make("div", { class: "run-bar" }, make("a", { href: "/" }, "‹ All runs"), page.facts, page.download);
  main.replaceChildren(bar, page.gone, page.cards, page.body);
  document.getElementById("title").textContent = "Reading …";
  listen(`/api/runs/${runs.map(encodeURIComponent).join(",")}/events`, {
    page: (told) => build(told, page),
    panels: (told) => build(told, page),
    gone: () => {
      if (!sections) document.getElementById("title").textContent = "No such run";
      page.gone.hidden = false;
    },
  });
}
