/* Draws plots: curves, bars and heat maps, from the JSON that steadfed.reports._render.plotly makes.

   window.steadfed, besides what numbers.js has
     plot                draws and updates a panel that is a plot
     resized()           draw again what has other room than it had
     repaint()           draw all plots again, after the colours have changed
     plotsOnPaper(yes)   draw all plots as wide as paper, at once; or as wide as the screen again
     plotly()            a promise of Plotly being there
     inflated(id)        a promise of the text that lies compressed in an element

   Plotly is taken from the page, where it lies compressed, unless it is there. */
(function () {
  "use strict";

  const steadfed = window.steadfed;
  const { make, css, written, significant } = steadfed;
  const NARROW = 520; // pixels of a plot on a phone
  const HIDDEN = 700; // of a plot that is folded away, until it is seen
  const PAPER = 660; // pixels of a plot on paper, A4 or letter, with the usual margins
  const LETTER = 6.6; // pixels of a letter on an axis
  const BESIDE = 70; // pixels beside the names of rows: the title, the marks, the margins
  const STEEP = 60; // pixels that names need more when they are slanted
  const FINGER = window.matchMedia("(hover: none)"); // a finger on a plot scrolls the page; a mouse zooms
  const COLOUR_BAR = { // of the whole picture, or it would push the margins
    orientation: "h", x: 1, xanchor: "right", yref: "container", yanchor: "bottom", ypad: 0,
    lenmode: "pixels", len: 200, thickness: 8, outlinewidth: 0, nticks: 5, tickfont: { size: 11 },
  };
  const LEGEND = { orientation: "h", x: 0, y: 1.02, xanchor: "left", yanchor: "bottom", font: { size: 12 }, traceorder: "normal" };
  const CONFIG = {
    responsive: true,
    displaylogo: false,
    displayModeBar: FINGER.matches ? false : "hover",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    showSendToCloud: false, // nothing leaves the page
    plotlyServerURL: "",
    showTips: false,
  };
  const plotted = new Set();
  let paper = false;

  /* ---- Plotly ---- */

  let loading = null;
  function plotly() {
    if (window.Plotly) return Promise.resolve();
    const run = (text) => document.head.append(make("script", {}, text)); // the page's policy knows its hash
    return (loading = loading || inflated("steadfed-plotly").then(run));
  }

  async function inflated(id) { // what lies compressed in the page
    const letters = atob(document.getElementById(id).textContent.trim());
    const whole = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    return new Response(new Blob([whole]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }

  /* ---- what there is room for ---- */

  const letters = (name) => name.replace(/<[^>]*>|\u200b/g, "").replace(/&\w+;/g, "&").length; // those that show
  const longest = (names) => names.reduce((most, name) => Math.max(most, letters(name)), 0);

  function besideEachOther(names) { // what two neighbours need of a column
    const pair = (name, at) => (letters(name) + letters(names[at - 1] || "")) / 2;
    return names.reduce((most, name, at) => Math.max(most, pair(name, at)), 0);
  }

  function columnWidth(panel, width) { // of a heat map, or of bars; roughly, as Plotly measures names only when it draws
    const [{ x, y }] = panel.figure.data;
    return (width - BESIDE - (panel.kind === "heat-map" ? LETTER * longest(y) : 0)) / x.length;
  }

  function room({ panel, plot }) {
    const width = paper ? PAPER : plot.clientWidth || HIDDEN;
    const fits = (number) => columnWidth(panel, width) >= LETTER * number + 8;
    const [{ x, z }] = panel.figure.data;
    const narrow = width < NARROW;
    const steep = narrow && panel.figure.layout.xaxis.dtick === 1 && !fits(besideEachOther(x));
    const numbers = Boolean(panel.written) && fits(longest(z.flat().map((value) => inCell(value, panel))));
    return { width: paper ? PAPER : plot.clientWidth ? undefined : HIDDEN, height: panel.height + (steep ? STEEP : 0), narrow, numbers };
  }

  /* ---- numbers in cells ---- */

  function inCell(value, panel) {
    if (value === null) return "";
    return panel.value.unit === "percent" ? `${Math.round(100 * value)}%` : significant(value, 3);
  }

  function luminance(colour) { // as WCAG defines it, of parts from 0 to 1
    const [red, green, blue] = colour.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  }

  function inkOn(share, ends) { // black or white, whichever is read better: at least 4.5 to 1 on any colour
    const parts = ends.map((colour) => [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16) / 255));
    const place = 2 * Math.min(1, Math.max(0, share));
    const left = Math.min(1, Math.floor(place));
    const mixed = parts[left].map((part, each) => part + (parts[left + 1][each] - part) * (place - left));
    return luminance(mixed) > 0.179 ? "#000000" : "#ffffff";
  }

  function numbersInCells(trace, panel, ends) { // as a trace of texts, since those of a heat map have one colour
    const cells = trace.z.flatMap((row, r) => row.map((z, c) => ({ x: trace.x[c], y: trace.y[r], z })));
    const known = cells.filter((cell) => cell.z !== null);
    const strong = new Set((panel.strong || []).map(([row, column]) => `${trace.y[row]}|${trace.x[column]}`));
    const ink = known.map((cell) => inkOn((cell.z - trace.zmin) / (trace.zmax - trace.zmin), ends));
    return {
      ...{ type: "scatter", mode: "text", hoverinfo: "skip", showlegend: false },
      x: known.map((cell) => cell.x),
      y: known.map((cell) => cell.y),
      text: known.map((cell) => inCell(cell.z, panel)),
      textfont: { size: 11, color: ink, weight: known.map((cell) => (strong.has(`${cell.y}|${cell.x}`) ? 700 : 400)) },
    };
  }

  /* ---- figures ---- */

  function axis(given) {
    const line = css("--line");
    return {
      ...{ automargin: true, gridcolor: line, linecolor: line, zerolinecolor: line, tickcolor: line },
      ...{ spikecolor: css("--quiet"), spikethickness: 1 },
      ...given,
      title: { ...given.title, font: { size: 12, color: css("--quiet") }, standoff: 8 },
    };
  }

  function heatMap(trace, panel, space) {
    const ends = [css("--bad"), css("--middle"), css("--fine")];
    if (!panel.good_is_high) ends.reverse();
    const place = panel.written && !space.narrow ? { x: 0, xanchor: "left" } : {}; // squares stand to the left
    const bar = { ...trace.colorbar, ...COLOUR_BAR, ...place, y: 1 - panel.figure.layout.margin.t / space.height };
    const value = (number) => `${panel.value.title}: ${written(number, panel.value.unit)}`; // a gap is no zero
    const said = (row, column) => [value(trace.z[row][column]), panel.texts[panel.said[row][column]]];
    const text = trace.z.map((cells, row) => cells.map((_, column) => said(row, column).filter(Boolean).join("<br>")));
    const map = { ...trace, text, colorscale: ends.map((colour, place) => [place / 2, colour]), colorbar: bar };
    return space.numbers ? [map, numbersInCells(trace, panel, ends)] : [map];
  }

  function painted(trace, panel, space) {
    if (trace.type === "heatmap") return heatMap(trace, panel, space);
    const colour = css(`--series-${trace.meta.colour % 10}`);
    if (trace.meta.area) return [{ ...trace, line: { ...trace.line, color: colour }, fillcolor: `${colour}33` }];
    const marker = { ...trace.marker, color: colour };
    return [trace.type === "bar" ? { ...trace, marker } : { ...trace, marker, line: { ...trace.line, color: colour } }];
  }

  function flags(panel, rows) {
    const marked = new Set(panel.flagged);
    const place = { type: "rect", xref: "paper", x0: -0.012, x1: -0.003, line: { width: 0 }, fillcolor: css("--flag") };
    return rows.flatMap((name, row) => (marked.has(name) ? [{ ...place, y0: row - 0.45, y1: row + 0.45 }] : []));
  }

  function mapped(layout, panel, order, space) { // what a heat map has besides: rows in an order, flags, the name of its scale
    const { rows, name } = panel.orders[order];
    const ticks = { ticks: "outside", ticklen: 12, tickcolor: "rgba(0,0,0,0)" }; // room for the flags
    const whole = (number) => ({ minallowed: -0.5, maxallowed: number - 0.5 }); // texts would add a margin
    Object.assign(layout.xaxis, whole(panel.figure.data[0].x.length));
    Object.assign(layout.yaxis, ticks, whole(rows.length));
    Object.assign(layout.yaxis, { categoryorder: "array", categoryarray: rows, autorange: "reversed" });
    layout.yaxis.uirevision = `${panel.key} ${name}`;
    layout.shapes = flags(panel, rows);
    const side = panel.written && !space.narrow ? { x: 0, xanchor: "left" } : { x: 1, xanchor: "right" };
    const above = { xref: "paper", yref: "paper", y: 1, ...side, yanchor: "bottom", yshift: 34, showarrow: false };
    layout.annotations = [{ ...above, text: panel.value.title, font: { size: 12, color: css("--quiet") } }];
  }

  function narrowed(layout, panel) { // names of many bars would leave no room; a finger on one shows it
    const { nticks, dtick } = panel.figure.layout.xaxis;
    layout.xaxis.nticks = Math.min(6, Math.ceil((nticks || 12) / 2));
    layout.xaxis.showticklabels = panel.kind !== "bars" || nticks > 0 || dtick === 1;
    if (panel.kind === "points") layout.xaxis.tickangle = -60;
    layout.yaxis.tickfont = { size: 10 };
  }

  function figure(panel, order, space) {
    const quiet = css("--quiet");
    const given = panel.figure.layout;
    const layout = {
      ...given,
      width: space.width,
      height: space.height,
      margin: { l: 12, r: 12, t: 12, b: 12, ...given.margin },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: css("--font"), size: 12, color: css("--ink") },
      hoverlabel: {
        ...{ bgcolor: css("--raised"), bordercolor: css("--line"), font: { color: css("--ink") } },
        ...{ align: "left", namelength: -1 },
      },
      legend: { ...LEGEND },
      dragmode: FINGER.matches ? false : "zoom",
      xaxis: axis(given.xaxis),
      yaxis: axis(given.yaxis),
      shapes: (given.shapes || []).map((each) => ({ ...each, line: { ...each.line, color: quiet, width: 1.2 } })),
      annotations: (given.annotations || []).map((each) => ({ ...each, font: { size: 11, color: quiet } })),
      uirevision: panel.key,
    };
    if (panel.kind === "heat-map") mapped(layout, panel, order, space);
    if (space.narrow && panel.kind !== "lines") narrowed(layout, panel);
    return { data: panel.figure.data.flatMap((trace) => painted(trace, panel, space)), layout };
  }

  /* ---- drawing ---- */

  function react(state) { // at once if Plotly is there: a browser that prints does not wait
    if (!window.Plotly) return plotly().then(() => react(state));
    if (!state.panel.figure) return null;
    const space = room(state);
    const { data, layout } = figure(state.panel, state.order, space);
    const picture = { filename: state.panel.key, scale: 2 };
    state.space = JSON.stringify(space);
    state.plot.style.minHeight = `${space.height}px`;
    const drawn = window.Plotly.react(state.plot, data, layout, { ...CONFIG, toImageButtonOptions: picture });
    return state.panel.written ? drawn.then(() => square(state, 4)) : drawn;
  }

  function square(state, tries) { // cells as wide as high; names that turn for it change the margins, so look again
    const { xaxis, yaxis, _size: room } = state.plot._fullLayout;
    const [{ x, y }] = state.panel.figure.data;
    const side = Math.min((yaxis._length / (yaxis.domain[1] - yaxis.domain[0])) / y.length, room.w / x.length);
    const [across, down] = [(side * x.length) / room.w, (side * y.length) / room.h];
    const off = Math.abs(across - xaxis.domain[1]) * room.w + Math.abs(1 - down - yaxis.domain[0]) * room.h;
    if (off < 1 || !tries) return null;
    const domains = { "xaxis.domain": [0, Math.min(1, across)], "yaxis.domain": [Math.max(0, 1 - down), 1] };
    return window.Plotly.relayout(state.plot, domains).then(() => square(state, tries - 1));
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
      state.body.replaceChildren(...[sortMenu(state), state.plot].filter(Boolean));
      plotted.add(state);
      await react(state);
    },
    async update(state, before) {
      const names = (panel) => JSON.stringify((panel.orders || []).map((each) => each.name));
      if (!state.plot || before.empty || state.panel.empty || names(before) !== names(state.panel)) await plot.draw(state);
      else await react(state);
    },
  };

  function drawnNow() {
    plotted.forEach((state) => state.plot.isConnected || plotted.delete(state));
    return [...plotted].filter((state) => window.Plotly && state.panel.figure);
  }

  function placeLegend(state) { // Plotly leaves it where it was when the margins change with the width
    if (state.panel.figure.layout.showlegend) window.Plotly.relayout(state.plot, { "legend.y": LEGEND.y });
  }

  function resized() { // Plotly stretches what is drawn; names and numbers may have room now, or none
    for (const state of drawnNow()) {
      if (state.space !== JSON.stringify(room(state))) react(state);
      placeLegend(state);
    }
  }

  let resizing = null;
  let width = window.innerWidth;
  window.addEventListener("resize", () => { // also as bars of a phone's browser come and go: that is no other width
    clearTimeout(resizing);
    if (width !== window.innerWidth) resizing = setTimeout(resized, 300);
    width = window.innerWidth;
  });

  steadfed.resized = resized;
  steadfed.repaint = () => drawnNow().forEach(react);
  steadfed.plotsOnPaper = function (yes) {
    paper = yes;
    steadfed.repaint();
    if (yes) drawnNow().forEach(placeLegend);
    else drawnNow().forEach((state) => window.Plotly.Plots.resize(state.plot).then(() => placeLegend(state))); // to its width
  };
  Object.assign(steadfed, { plot, plotly, inflated });
})();
