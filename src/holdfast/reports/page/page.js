/* The page of a report: its colours, its contents, plots drawn when they come into sight, printing.

   window.holdfast, besides what report.js has
     drawAll()         draw what nobody has scrolled to yet; a promise
     setTheme(name)    "light" or "dark"
     drawn, plots      how many plots are drawn, and how many there are */
(function () {
  "use strict";

  const holdfast = window.holdfast;
  Object.assign(holdfast, { drawn: 0, plots: 0 });

  holdfast.setTheme = function (theme) { // kept as long as the page is open
    document.documentElement.setAttribute("data-theme", theme);
    holdfast.repaint();
  };

  function themes() {
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    const button = document.getElementById("theme");
    const now = () => document.documentElement.getAttribute("data-theme") || (dark.matches ? "dark" : "light");
    dark.addEventListener("change", holdfast.repaint);
    if (button) button.addEventListener("click", () => holdfast.setTheme(now() === "dark" ? "light" : "dark"));
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
  function whole(panel) { // with its figure, which lies compressed beside it
    if (panel.empty) return panel;
    plots = plots || holdfast.inflated("holdfast-plots").then(JSON.parse);
    return plots.then((all) => ({ ...panel, ...all[panel.key] }), (error) => ({ ...panel, empty: `This cannot be drawn here: ${error}` }));
  }

  function lazily(panels) {
    const waiting = new Map();
    const draw = async (element) => {
      const panel = waiting.get(element);
      if (!waiting.delete(element)) return;
      watcher.unobserve(element);
      await holdfast.drawPanel(element, await whole(panel));
      if (holdfast.isPlot(panel)) holdfast.drawn += 1;
    };
    const watcher = new IntersectionObserver(
      (seen) => seen.filter((each) => each.isIntersecting).forEach((each) => draw(each.target)),
      { rootMargin: "500px 0px" },
    );
    for (const panel of panels) {
      const element = document.getElementById(panel.key);
      if (holdfast.isPlot(panel)) {
        holdfast.plots += 1;
        waiting.set(element, panel);
        holdfast.frame(element, panel);
        watcher.observe(element);
      } else holdfast.drawPanel(element, panel);
    }
    holdfast.drawAll = () => Promise.all([...waiting.keys()].map(draw));
  }

  function printing() {
    let before = null;
    window.addEventListener("beforeprint", () => {
      before = document.documentElement.getAttribute("data-theme");
      holdfast.setTheme("light");
      holdfast.drawAll();
    });
    window.addEventListener("afterprint", () => {
      if (before) holdfast.setTheme(before);
      else document.documentElement.removeAttribute("data-theme");
      holdfast.repaint();
    });
  }

  themes();
  contents();
  lazily(JSON.parse(document.getElementById("holdfast-report").textContent));
  printing();
})();
