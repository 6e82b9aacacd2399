/* A stream of events that comes back: after a lost connection, a restarted server, a tab that was out of sight.

   Browsers allow six connections to a server, so a tab that nobody looks at gives its own back. */

const LATER = 2000; // milliseconds until a stream that the browser has given up is opened again

export function listen(url, handlers) {
  const banner = document.getElementById("connection");
  let source = null;
  let timer = null;

  function lost() {
    banner.textContent = "Connection lost, trying again …";
    banner.hidden = false;
    if (source && source.readyState === EventSource.CLOSED) {
      source = null;
      clearTimeout(timer);
      timer = setTimeout(open, LATER);
    }
  }

  function open() {
    if (source || document.hidden) return;
    source = new EventSource(url);
    source.addEventListener("open", () => (banner.hidden = true));
    source.addEventListener("error", lost);
    for (const [name, handler] of Object.entries(handlers)) {
      source.addEventListener(name, (event) => handler(JSON.parse(event.data)));
    }
  }

  function close() {
    clearTimeout(timer);
    if (source) source.close();
    source = null;
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", open);
  open();
}

export async function ask(url) {
  const answer = await fetch(url, { headers: { accept: "application/json" } });
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.error || `the server answered ${answer.status}`);
  return told;
}

/* Elements are made of text, never of markup. */
export function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

export const TONES = {
  running: "running",
  complete: "complete",
  interrupted: "interrupted",
  damaged: "damaged",
  "not begun": "waiting",
};

export function badge(state) {
  return make("span", { class: `badge badge-${TONES[state] || "waiting"}` }, state);
}

export function progress(played, planned) {
  const whole = planned ? Math.min(1, played / planned) : 0;
  const text = `${played.toLocaleString("en")}${planned ? ` / ${planned.toLocaleString("en")}` : ""}`;
  const bar = make("span", { class: "bar", "aria-hidden": "true" }, make("span", {}));
  bar.firstChild.style.width = `${100 * whole}%`;
  return make("span", { class: "progress" }, make("span", {}, text), bar);
}
