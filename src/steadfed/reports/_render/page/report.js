/* Draws panels: plots, tables, texts and code, from the JSON that steadfed.reports._render.plotly makes.

   window.steadfed, besides what numbers.js and plots.js have
     drawPanel(element, panel)      fill an element with a panel; a promise of it being there
     updatePanel(element, panel)    the same panel with newer figures: zoom, order, search and sorting stay
     drawHeadlines(element, list)   the cards on top
     isPlot(panel)                  whether Plotly draws it
     refit()                        tables as wide as there is room now
     onPaper(yes)                   plots and tables as paper needs them, at once; or as the screen does

   Text is set as text, never as markup. */
(function () {
  "use strict";

  const steadfed = window.steadfed;
  const { make, written, plot } = steadfed;
  const SEARCHED = 12; // tables with more rows get a field to search in
  const SHORT = 16; // letters of a cell that stay in one line
  const LONG = 60; // letters of a cell that would make its row tall on a phone
  const UNBROKEN = /\S{30}/; // a word that is broken on paper
  const NARROW = window.matchMedia("(max-width: 40rem)");
  const PRINTED = 120; // tables up to so many rows are printed as a whole
  const states = new WeakMap();
  const tables = new Set();
  let paper = false;

  /* ---- tables ---- */

  function compare(one, other) {
    if (typeof one === "number" && typeof other === "number") return one - other;
    return String(one).localeCompare(String(other), "en", { numeric: true });
  }

  function chosenRows(state) {
    const { rows, columns, shown } = state.panel;
    let places = rows.map((_, place) => place);
    if (state.search) {
      const wanted = state.search.toLowerCase();
      const text = (row) => row.map((value, place) => written(value, columns[place].unit)).join(" ").toLowerCase();
      places = places.filter((place) => text(rows[place]).includes(wanted));
    }
    if (state.sorted !== null) {
      const known = places.filter((place) => rows[place][state.sorted] !== null);
      const unknown = places.filter((place) => rows[place][state.sorted] === null);
      known.sort((one, other) => state.direction * compare(rows[one][state.sorted], rows[other][state.sorted]));
      places = known.concat(unknown); // what is not known comes last either way
    }
    const few = shown && !state.all && !state.search && !(paper && rows.length <= PRINTED);
    const most = few ? shown : places.length;
    return { places: places.slice(0, most), left: places.length - most };
  }

  function fits(state) { // leave out what matters least, the last first, until the others need no scrolling
    const scrolled = state.whole.parentElement;
    const minor = state.panel.columns.map((each, place) => (each.minor ? place : -1)).filter((place) => place >= 0);
    state.hidden.clear();
    if (paper || state.every || NARROW.matches || !scrolled.clientWidth) return;
    for (fillTable(state); minor.length && scrolled.scrollWidth > scrolled.clientWidth; fillTable(state)) {
      state.hidden.add(minor.pop());
    }
  }

  function refit(state) {
    fits(state);
    fillTable(state);
    state.columns.hidden = !state.hidden.size && !state.every;
    state.columns.textContent = state.every ? "Fewer columns" : `All columns (${state.hidden.size} more)`;
  }

  const numeric = (state, place) => state.panel.columns[place].unit !== "text";

  const kindOf = (text) => (text.length <= SHORT ? "short" : UNBROKEN.test(text) ? "unbroken" : null);
  const long = (value) => String(value).length > LONG;
  const wordy = ({ columns, rows }) => columns.length > 2 && rows.some((row) => row.some(long));

  function fillTable(state) {
    const { places, left } = chosenRows(state);
    const marked = new Set(state.panel.flagged);
    const { columns } = state.panel;
    const cell = (row, column) => {
      const half = columns[column + 1]?.half_width ? row[column + 1] : null;
      const alone = written(row[column], columns[column].unit);
      const text = half === null ? alone : `${alone.replace(/ %$/, "")} ± ${written(half, columns[column].unit)}`;
      const kind = numeric(state, column) ? "number" : kindOf(text);
      return make("td", { class: kind, "data-label": columns[column].title }, make("span", {}, text));
    };
    const seen = columns.map((_, column) => column).filter((column) => !columns[column].half_width && !state.hidden.has(column));
    const row = (place) =>
      make("tr", { class: marked.has(place) ? "flagged" : null }, ...seen.map((column) => cell(state.panel.rows[place], column)));
    state.rows.replaceChildren(...places.map(row));
    if (!places.length) {
      const why = state.search ? "No row has this." : "There are no rows.";
      state.rows.append(make("tr", {}, make("td", { colspan: state.panel.columns.length, class: "empty" }, why)));
    }
    const whole = state.panel.rows.length.toLocaleString("en");
    state.whole.classList.toggle("wordy", wordy(state.panel));
    state.count.textContent = places.length < state.panel.rows.length ? `${places.length} of ${whole} rows are shown.` : "";
    state.more.hidden = left <= 0 && !(state.all && state.panel.shown);
    state.more.textContent = state.all ? "Show fewer" : `Show all ${whole} rows`;
    state.headings.forEach((heading, place) => {
      const way = state.direction > 0 ? "ascending" : "descending";
      heading.setAttribute("aria-sort", place === state.sorted ? way : "none");
      heading.hidden = !seen.includes(place);
    });
  }

  function heading(state, column, place) {
    const button = make("button", { type: "button", title: column.hint || null }, column.title);
    button.addEventListener("click", () => {
      const first = numeric(state, place) ? -1 : 1;
      state.direction = state.sorted === place ? -state.direction : first;
      state.sorted = place;
      fillTable(state);
    });
    return make("th", { scope: "col", class: numeric(state, place) ? "number" : null, "data-label": column.title }, button);
  }

  function searchField(state) {
    if (state.panel.rows.length <= SEARCHED) return null;
    const field = make("input", { type: "search", placeholder: "Search", "aria-label": `Search in ${state.panel.title}` });
    field.value = state.search;
    field.addEventListener("input", () => {
      state.search = field.value.trim();
      fillTable(state);
    });
    return make("div", { class: "tools" }, field);
  }

  const table = {
    async draw(state) {
      Object.assign(state, { sorted: null, direction: 1, search: "", all: false, every: false, hidden: new Set() });
      table.build(state);
    },
    build(state) {
      state.headings = state.panel.columns.map((column, place) => heading(state, column, place));
      state.rows = make("tbody");
      state.count = make("p", { class: "count" });
      state.more = make("button", { type: "button", class: "more" });
      state.more.addEventListener("click", () => {
        state.all = !state.all;
        fillTable(state);
      });
      state.columns = make("button", { type: "button", class: "wider", hidden: true });
      state.columns.addEventListener("click", () => {
        state.every = !state.every;
        refit(state);
      });
      state.whole = make("table", {}, make("thead", {}, make("tr", {}, ...state.headings)), state.rows);
      const region = { class: "scrolled", tabindex: 0, role: "region", "aria-label": state.panel.title };
      const scrolled = make("div", region, state.whole);
      state.body.replaceChildren(...[searchField(state), scrolled, state.count, state.more, state.columns].filter(Boolean));
      tables.add(state);
      fillTable(state);
      refit(state);
    },
    async update(state, before) {
      const shape = (panel) => JSON.stringify([panel.columns, panel.title, panel.rows.length > SEARCHED]);
      if (shape(before) === shape(state.panel)) fillTable(state);
      else table.build(state);
    },
  };

  /* ---- texts and code ---- */

  function typeset(formula) {
    const ready = document.getElementById(`formula-${formula.name}`); // MathML that came with the page, if it did
    return make("div", { class: "formula" }, ready ? ready.content.cloneNode(true) : formula.text);
  }

  const text = {
    async draw(state) {
      const { formula, paragraphs, tone } = state.panel;
      state.element.classList.add(`tone-${tone}`);
      state.body.replaceChildren(...(formula ? [typeset(formula)] : []), ...paragraphs.map((each) => make("p", {}, each)));
    },
    async update(state, before) {
      state.element.classList.remove(`tone-${before.tone}`);
      await text.draw(state);
    },
  };

  async function copied(from) {
    try {
      await navigator.clipboard.writeText(from.textContent);
      return true;
    } catch (refused) { // an older browser, or no permission: by a selection
      window.getSelection().selectAllChildren(from);
      return document.execCommand("copy");
    }
  }

  const code = {
    async draw(state) {
      const inner = make("code", {}, state.panel.text);
      const button = make("button", { type: "button", class: "copy" }, "Copy");
      button.addEventListener("click", async () => {
        button.textContent = (await copied(inner)) ? "Copied" : "Select and copy";
        setTimeout(() => (button.textContent = "Copy"), 1500);
      });
      state.body.replaceChildren(make("div", { class: "code" }, make("pre", { tabindex: 0 }, inner), button));
    },
    update: (state) => code.draw(state),
  };

  /* ---- panels ---- */

  const KINDS = { lines: plot, points: plot, "heat-map": plot, bars: plot, table, text, code };

  function frame(element, panel) {
    element.classList.add("panel", `panel-${panel.kind}`);
    const title = make("h3", {}, panel.title);
    const body = make("div", { class: "body" });
    const caption = make("p", { class: "caption" }, panel.caption);
    caption.hidden = !panel.caption;
    if (panel.height) body.style.minHeight = `${panel.height}px`; // nothing jumps when it is drawn
    element.replaceChildren(title, body, caption);
    states.set(element, { element, panel, title, body, caption });
    return states.get(element);
  }

  async function guarded(state, drawing) {
    try {
      await drawing();
      state.element.setAttribute("data-drawn", "");
    } catch (error) {
      steadfed.failed.push(`${state.panel.key}: ${error}`);
      state.body.replaceChildren(make("p", { class: "empty" }, `This cannot be drawn here: ${error}`));
    }
  }

  steadfed.refit = () => tables.forEach((state) => state.whole.isConnected && refit(state)); // there is other room
  steadfed.isPlot = (panel) => KINDS[panel.kind] === plot;
  steadfed.frame = frame;

  steadfed.drawPanel = async function (element, panel) {
    const state = frame(element, panel);
    await guarded(state, () => KINDS[panel.kind].draw(state));
  };

  steadfed.updatePanel = async function (element, panel) {
    const state = states.get(element);
    if (!state || state.panel.kind !== panel.kind) {
      element.className = "";
      await steadfed.drawPanel(element, panel);
      return;
    }
    const before = state.panel;
    state.panel = panel;
    state.title.textContent = panel.title;
    state.caption.textContent = panel.caption;
    state.caption.hidden = !panel.caption;
    await guarded(state, () => KINDS[panel.kind].update(state, before));
  };

  steadfed.drawHeadlines = function (element, headlines) {
    const words = (each) => make("dd", {}, make("strong", {}, each.value), make("span", {}, each.note));
    const card = (each) => make("div", { class: `card tone-${each.tone}` }, make("dt", {}, each.title), words(each));
    element.replaceChildren(...headlines.map(card));
  };

  steadfed.onPaper = function (yes) {
    paper = yes;
    steadfed.plotsOnPaper(yes);
    for (const state of tables) {
      if (state.whole.isConnected) refit(state);
      else tables.delete(state);
    }
  };
})();
