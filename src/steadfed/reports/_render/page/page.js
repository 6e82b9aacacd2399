/* The page of a report: its colours, its contents, plots drawn when they come into sight or nothing else is to do,
   printing.

   window.steadfed, besides what report.js has
     drawAll()         draw what nobody has scrolled to yet; a promise
     setTheme(name)    "light" or "dark"
     drawn, plots      how many plots are drawn, and how many there are */
(function () {
  "use strict";

  const steadfed = window.steadfed;
  Object.assign(steadfed, { drawn: 0, plots: 0 });

  steadfed.setTheme = function (theme) { // kept as long as the page is open
    document.documentElement.setAttribute("data-theme", theme);
    steadfed.repaint();
  };

  function themes() {
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    const button = document.getElementById("theme");
    const now = () => document.documentElement.getAttribute("data-theme") || (dark.matches ? "dark" : "light");
    dark.addEventListener("change", steadfed.repaint);
    if (button) button.addEventListener("click", () => steadfed.setTheme(now() === "dark" ? "light" : "dark"));
  }

  function contents() {
    const whole = document.getElementById("contents");
    if (!whole) return;
    const wide = window.matchMedia("(min-width: 70rem)");
    const fold = () => (whole.open = wide.matches);
    wide.addEventListener("change", fold);
    fold();
    const links = new Map([...whole.querySelectorAll("a")].map((link) => [link.hash.slice(1), link]));
    whole.addEventListener("click", (event) => event.target.closest("a") && fold());
    const watcher = new IntersectionObserver(
      (seen) => {
        const top = seen.filter((each) => each.isIntersecting).pop();
        if (!top) return;
        links.forEach((link) => link.removeAttribute("aria-current"));
        links.get(top.target.id)?.setAttribute("aria-current", "true");
      },
      { rootMargin: "0px 0px -75% 0px" },
    );
    document.querySelectorAll("main > section[id]").forEach((section) => watcher.observe(section));
  }

  let plots = null;
  const figures = () => (plots = plots || steadfed.inflated("steadfed-plots").then(JSON.parse));

  function whole(panel) { // with its figure, which lies compressed beside it
    if (panel.empty) return panel;
    const unread = (error) => ({ ...panel, empty: `This cannot be drawn here: ${error}` });
    return figures().then((all) => ({ ...panel, ...all[panel.key] }), unread);
  }

  function lazily(panels) {
    const waiting = new Map();
    const drawing = new Map();
    const draw = async (element) => {
      const panel = waiting.get(element);
      waiting.delete(element);
      watcher.unobserve(element);
      await steadfed.drawPanel(element, await whole(panel));
      drawing.delete(element);
      steadfed.drawn += 1;
    };
    const begin = (element) => {
      if (waiting.has(element)) drawing.set(element, draw(element));
      return drawing.get(element);
    };
    const watcher = new IntersectionObserver(
      (seen) => seen.filter((each) => each.isIntersecting).forEach((each) => begin(each.target)),
      { rootMargin: "500px 0px" },
    );
    for (const panel of panels) {
      const element = document.getElementById(panel.key);
      if (steadfed.isPlot(panel)) {
        steadfed.plots += 1;
        waiting.set(element, panel);
        steadfed.frame(element, panel);
        watcher.observe(element);
      } else steadfed.drawPanel(element, panel);
    }
    steadfed.drawAll = () => Promise.all([...waiting.keys(), ...drawing.keys()].map(begin));
    return () => waiting.size > 0 && begin(waiting.keys().next().value);
  }

  /* A browser does not wait for what a page does before it prints, so in idle time, after the page has loaded, plots that
     nobody scrolled to are drawn, one at a time. Where memory is dear, on phones, Plotly and the figures are only
     inflated: with them a print draws the rest at once. Where data are to be saved nothing happens before somebody
     scrolls; then, as right after loading, a print names what is missing, and the button waits for all of it. */
  function idly(drawNext) {
    if (!steadfed.plots || navigator.connection?.saveData) return;
    const soon = window.requestIdleCallback || ((call) => setTimeout(call, 300));
    const rest = () => soon(async () => {
      const drawing = drawNext();
      if (!drawing) return;
      await drawing;
      rest();
    });
    const inflate = () => soon(() => Promise.all([steadfed.plotly(), figures()]).catch(() => null)); // drawing says why
    const begin = window.matchMedia("(hover: none)").matches ? inflate : rest;
    if (document.readyState === "complete") begin();
    else window.addEventListener("load", begin);
  }

  function folds() { // what is opened has its width now; a print has everything, and leaves it as it was
    const all = [...document.querySelectorAll("details.fold")];
    all.forEach((each) => each.addEventListener("toggle", () => each.open && steadfed.unfolded()));
    let closed = [];
    window.addEventListener("beforeprint", () => {
      closed = all.filter((each) => !each.open);
      closed.forEach((each) => (each.open = true));
    });
    window.addEventListener("afterprint", () => closed.forEach((each) => (each.open = false)));
    const shown = () => { // an address may lead into what is folded
      const target = location.hash && document.getElementById(location.hash.slice(1));
      const fold = target && target.closest("details.fold");
      if (fold) fold.open = true;
    };
    window.addEventListener("hashchange", shown);
    shown();
  }

  steadfed.unfolded = function () {
    steadfed.resized();
    steadfed.refit();
  };

  function printing() {
    let before = null;
    window.addEventListener("beforeprint", () => {
      before = document.documentElement.getAttribute("data-theme");
      document.documentElement.setAttribute("data-theme", "light");
      steadfed.onPaper(true);
      steadfed.drawAll();
    });
    window.addEventListener("afterprint", () => {
      if (before) document.documentElement.setAttribute("data-theme", before);
      else document.documentElement.removeAttribute("data-theme");
      steadfed.onPaper(false);
    });
    document.getElementById("print").addEventListener("click", async () => {
      await steadfed.drawAll();
      window.print();
    });
  }

  themes();
  contents();
  folds();
  idly(lazily(JSON.parse(document.getElementById("steadfed-report").textContent)));
  printing();
})();
