/* The search of the site is a worker, and pages that are opened from disk may not start any: there, a hidden frame plays the worker. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.addEventListener("load", () => this.begin());
      this.frame.srcdoc = `<script src="${url}"></script>`;
      document.body.append(this.frame);
    }

    begin() {
      this.inside = this.frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.waiting.forEach((data) => this.postMessage(data));
    }

    postMessage(data) {
      if (this.inside) this.inside.dispatchEvent(new MessageEvent("message", { data }));
      else this.waiting.push(data);
    }
  };
}
