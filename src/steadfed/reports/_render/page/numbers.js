/* What all scripts of a page share: elements, colours, and how numbers are written.

   window.steadfed
     make(tag, attributes, ...children)   a new element; text in it is text, never markup
     css(name)                            a colour or a font of the page, as it is now
     written(value, unit)                 a number as tables and pointers show it
     significant(value, digits)           a number without a unit
     failed                               what went wrong */
(function () {
  "use strict";

  const DASH = "–";
  const PREFIXES = ["", "k", "M", "G", "T", "P"];

  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  }

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

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

  function percent(share) { // what is not quite nothing or everything does not look so; as steadfed/_core/wording.py
    if (share > 0 && share < 0.001) return "< 0.1 %";
    return share > 0.999 && share < 1 ? "> 99.9 %" : `${(100 * share).toFixed(1)} %`;
  }

  const FORMATS = {
    number: (value) => significant(value, 4),
    percent,
    bytes,
    seconds: (value) => `${significant(value, 3)} s`,
    text: (value) => String(value),
  };

  function written(value, unit) {
    if (value === null) return DASH;
    return typeof value === "number" ? FORMATS[unit](value) : value;
  }

  window.steadfed = { failed: [], make, css, written, significant };
})();
