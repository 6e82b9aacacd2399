/* Draws panels: plots, tables, texts and code, from the JSON that holdfast.reports.plotting makes.

   window.holdfast
     drawPanel(element, panel)      fill an element with a panel; a promise of it being there
     updatePanel(element, panel)    the same panel with newer figures: zoom, order, search and sorting stay
     drawHeadlines(element, list)   the cards on top
     repaint()                      draw all plots again, after the colours have changed
     isPlot(panel)                  whether Plotly draws it
     inflated(id)                   a promise of the text that lies compressed in an element
     failed                         what went wrong

   Text is set as text, never as markup. Plotly is taken from the page, where it lies compressed, unless it is there. */
(function () {
  "use strict";

  const DASH = "–";
  const SEARCHED = 12; // tables with more rows get a field to search in
  const SHORT = 16; // letters of a cell that stay in one line
  const NARROW = 520; // pixels of a plot on a phone
  const FINGER = window.matchMedia("(hover: none)"); // a finger on a plot scrolls the page; a mouse zooms
  const COLOUR_BAR = { // of the whole picture, or it would push the margins
    orientation: "h", x: 1, xanchor: "right", yref: "container", yanchor: "bottom", ypad: 0,
    lenmode: "pixels", len: 200, thickness: 8, outlinewidth: 0, nticks: 5, tickfont: { size: 11 },
  };
  const states = new WeakMap();
  const plotted = new Set();
  const holdfast = (window.holdfast = { failed: [] });

  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  }

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  /* ---- numbers ---- */

  const PREFIXES = ["", "k", "M", "G", "T", "P"];
  function significant(value, digits) {
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e6 || size < 1e-4) return value.toExponential(digits - 1).replace(/\.?0+e/, "e");
    if (Number.isInteger(value)) return value.toLocaleString("en");
    return String(Number(value.toPrecision(digits)));
  }

  function bytes(value) {
    let place = 0;
    while (Math.abs(value) >= 1000 && place < PREFIXES.length - 1) {
      value /= 1000;
      place += 1;
    }
    return `${Number(value.toPrecision(3))} ${PREFIXES[place]}B`;
  }

  const FORMATS = {
    number: (value) => significant(value, 4),
    percent: (value) => `${(100 * value).toFixed(1)} %`,
    bytes,
    seconds: (value) => `${significant(value, 3)} s`,
    text: (value) => String(value),
  };

  function written(value, unit) {
    if (value === null) return DASH;
    return typeof value === "number" ? FORMATS[unit](value) : value;
  }

  /* ---- Plotly ---- */

  let loading = null;
  function plotly() {
    if (window.Plotly) return Promise.resolve(window.Plotly);
    const run = (text) => document.head.append(make("script", {}, text)); // the page's policy knows its hash
    return (loading = loading || inflated("holdfast-plotly").then(run).then(() => window.Plotly));
  }

  async function inflated(id) { // what lies compressed in the page
    const letters = atob(document.getElementById(id).textContent.trim());
    const whole = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    return new Response(new Blob([whole]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }

  /* ---- plots ---- */

  function axis(given) {
    const line = css("--line");
    return {
      ...{ automargin: true, gridcolor: line, linecolor: line, zerolinecolor: line, tickcolor: line },
      ...{ spikecolor: css("--quiet"), spikethickness: 1 },
      ...given,
      title: { ...given.title, font: { size: 12, color: css("--quiet") }, standoff: 8 },
    };
  }

  function painted(trace, panel) {
    if (trace.type === "heatmap") {
      const ends = [css("--bad"), css("--middle"), css("--fine")];
      if (!panel.good_is_high) ends.reverse();
      const bar = { ...trace.colorbar, ...COLOUR_BAR, y: 1 - panel.figure.layout.margin.t / panel.height };
      const value = (number) => `${panel.value.title}: ${written(number, panel.value.unit)}`; // a gap is no zero
      const said = (row, column) => [value(trace.z[row][column]), panel.texts[panel.said[row][column]]];
      const text = trace.z.map((cells, row) => cells.map((_, column) => said(row, column).filter(Boolean).join("<br>")));
      return { ...trace, text, colorscale: ends.map((colour, place) => [place / 2, colour]), colorbar: bar };
    }
    const colour = css(`--series-${trace.meta.colour % 10}`);
    const marker = { ...trace.marker, color: colour };
    return trace.type === "bar" ? { ...trace, marker } : { ...trace, marker, line: { ...trace.line, color: colour } };
  }

  function flags(panel, rows) {
    const marked = new Set(panel.flagged);
    const place = { type: "rect", xref: "paper", x0: -0.012, x1: -0.003, line: { width: 0 }, fillcolor: css("--flag") };
    return rows.flatMap((name, row) => (marked.has(name) ? [{ ...place, y0: row - 0.45, y1: row + 0.45 }] : []));
  }

  function figure(panel, order, narrow) {
    const quiet = css("--quiet");
    const given = panel.figure.layout;
    const layout = {
      ...given,
      height: panel.height,
      margin: { l: 12, r: 12, t: 12, b: 12, ...given.margin },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: css("--font"), size: 12, color: css("--ink") },
      hoverlabel: { bgcolor: css("--raised"), bordercolor: css("--line"), font: { color: css("--ink") }, align: "left", namelength: -1 },
      legend: { orientation: "h", x: 0, y: 1.02, xanchor: "left", yanchor: "bottom", font: { size: 12 }, traceorder: "normal" },
      dragmode: FINGER.matches ? false : "zoom",
      xaxis: axis(given.xaxis),
      yaxis: axis(given.yaxis),
      shapes: (given.shapes || []).map((each) => ({ ...each, line: { ...each.line, color: quiet, width: 1.2 } })),
      annotations: (given.annotations || []).map((each) => ({ ...each, font: { size: 11, color: quiet } })),
      uirevision: panel.key,
    };
    if (panel.kind === "heat-map") {
      const rows = panel.orders[order].rows;
      const room = { ticks: "outside", ticklen: 12, tickcolor: "rgba(0,0,0,0)" }; // for the flags
      Object.assign(layout.yaxis, room, { categoryorder: "array", categoryarray: rows, autorange: "reversed" });
      layout.yaxis.uirevision = `${panel.key} ${panel.orders[order].name}`;
      layout.shapes = flags(panel, rows);
      const above = { xref: "paper", yref: "paper", x: 1, y: 1, xanchor: "right", yanchor: "bottom", yshift: 34, showarrow: false };
      layout.annotations = [{ ...above, text: panel.value.title, font: { size: 12, color: quiet } }];
    }
    if (narrow && panel.kind !== "lines") { // names would leave no room; a finger on a bar or a cell shows them
      layout.xaxis.nticks = Math.min(6, Math.ceil((given.xaxis.nticks || 12) / 2));
      layout.xaxis.showticklabels = panel.kind !== "bars" || given.xaxis.nticks > 0;
      layout.yaxis.tickfont = { size: 10 };
    }
    return { data: panel.figure.data.map((trace) => painted(trace, panel)), layout };
  }

  const CONFIG = {
    responsive: true,
    displaylogo: false,
    displayModeBar: FINGER.matches ? false : "hover",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    showSendToCloud: false, // nothing leaves the page
    plotlyServerURL: "",
    showTips: false,
  };

  async function react(state) {
    const Plotly = await plotly();
    if (!state.panel.figure) return;
    const { data, layout } = figure(state.panel, state.order, state.plot.clientWidth < NARROW);
    const picture = { filename: state.panel.key, scale: 2 };
    await Plotly.react(state.plot, data, layout, { ...CONFIG, toImageButtonOptions: picture });
  }

  function sortMenu(state) {
    const { orders } = state.panel;
    if (!orders || orders.length < 2) return null;
    const select = make("select", {}, ...orders.map((each, place) => make("option", { value: place }, each.name)));
    select.value = state.order;
    select.addEventListener("change", () => {
      state.order = Number(select.value);
      react(state);
    });
    return make("div", { class: "tools" }, make("label", {}, "Sort rows ", select));
  }

  const plot = {
    async draw(state) {
      if (state.panel.empty) {
        state.body.replaceChildren(make("p", { class: "empty" }, state.panel.empty));
        return;
      }
      state.order = Math.min(state.order || 0, (state.panel.orders || [0]).length - 1);
      state.plot = make("div", { class: "plot", role: "img", "aria-label": state.panel.title });
      state.plot.style.minHeight = `${state.panel.height}px`;
      state.body.replaceChildren(...[sortMenu(state), state.plot].filter(Boolean));
      await react(state);
      plotted.add(state);
    },
    async update(state, before) {
      const names = (panel) => JSON.stringify((panel.orders || []).map((each) => each.name));
      if (!state.plot || before.empty || state.panel.empty || names(before) !== names(state.panel)) await plot.draw(state);
      else await react(state);
    },
  };

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
    const most = shown && !state.all && !state.search ? shown : places.length;
    return { places: places.slice(0, most), left: places.length - most };
  }

  const numeric = (state, place) => state.panel.columns[place].unit !== "text";

  function fillTable(state) {
    const { places, left } = chosenRows(state);
    const marked = new Set(state.panel.flagged);
    const cell = (value, column) => {
      const text = written(value, state.panel.columns[column].unit);
      return make("td", { class: numeric(state, column) ? "number" : text.length <= SHORT ? "short" : null }, text);
    };
    const row = (place) =>
      make("tr", { class: marked.has(place) ? "flagged" : null }, ...state.panel.rows[place].map(cell));
    state.rows.replaceChildren(...places.map(row));
    if (!places.length) {
      const why = state.search ? "No row has this." : "There are no rows.";
      state.rows.append(make("tr", {}, make("td", { colspan: state.panel.columns.length, class: "empty" }, why)));
    }
    state.more.hidden = left <= 0 && !(state.all && state.panel.shown);
    state.more.textContent = state.all ? "Show fewer" : `Show all ${state.panel.rows.length.toLocaleString("en")} rows`;
    state.headings.forEach((heading, place) => {
      const way = state.direction > 0 ? "ascending" : "descending";
      heading.setAttribute("aria-sort", place === state.sorted ? way : "none");
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
    return make("th", { scope: "col", class: numeric(state, place) ? "number" : null }, button);
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
      Object.assign(state, { sorted: null, direction: 1, search: "", all: false });
      table.build(state);
    },
    build(state) {
      state.headings = state.panel.columns.map((column, place) => heading(state, column, place));
      state.rows = make("tbody");
      state.more = make("button", { type: "button", class: "more" });
      state.more.addEventListener("click", () => {
        state.all = !state.all;
        fillTable(state);
      });
      const whole = make("table", {}, make("thead", {}, make("tr", {}, ...state.headings)), state.rows);
      const scrolled = make("div", { class: "scrolled", tabindex: 0, role: "region", "aria-label": state.panel.title }, whole);
      state.body.replaceChildren(...[searchField(state), scrolled, state.more].filter(Boolean));
      fillTable(state);
    },
    async update(state, before) {
      const shape = (panel) => JSON.stringify([panel.columns, panel.title, panel.rows.length > SEARCHED]);
      if (shape(before) === shape(state.panel)) fillTable(state);
      else table.build(state);
    },
  };

  /* ---- texts and code ---- */

  const text = {
    async draw(state) {
      state.element.classList.add(`tone-${state.panel.tone}`);
      state.body.replaceChildren(...state.panel.paragraphs.map((each) => make("p", {}, each)));
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

  const KINDS = { lines: plot, "heat-map": plot, bars: plot, table, text, code };

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
      holdfast.failed.push(`${state.panel.key}: ${error}`);
      state.body.replaceChildren(make("p", { class: "empty" }, `This cannot be drawn here: ${error}`));
    }
  }

  holdfast.isPlot = (panel) => KINDS[panel.kind] === plot;
  Object.assign(holdfast, { frame, inflated });

  holdfast.drawPanel = async function (element, panel) {
    const state = frame(element, panel);
    await guarded(state, () => KINDS[panel.kind].draw(state));
  };

  holdfast.updatePanel = async function (element, panel) {
    const state = states.get(element);
    if (!state || state.panel.kind !== panel.kind) {
      element.className = "";
      await holdfast.drawPanel(element, panel);
      return;
    }
    const before = state.panel;
    state.panel = panel;
    state.title.textContent = panel.title;
    state.caption.textContent = panel.caption;
    state.caption.hidden = !panel.caption;
    await guarded(state, () => KINDS[panel.kind].update(state, before));
  };

  holdfast.drawHeadlines = function (element, headlines) {
    const words = (each) => make("dd", {}, make("strong", {}, each.value), make("span", {}, each.note));
    const card = (each) => make("div", { class: `card tone-${each.tone}` }, make("dt", {}, each.title), words(each));
    element.replaceChildren(...headlines.map(card));
  };

  holdfast.repaint = function () {
    for (const state of plotted) {
      if (state.plot.isConnected) react(state);
      else plotted.delete(state);
    }
  };
})();
