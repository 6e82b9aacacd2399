// node docs/katex/mathml.js: typesets the formulas of reports anew, where their TeX was changed. Reports carry MathML,
// which browsers draw by themselves: no script, no font, two thousand letters each.
const { readFileSync, writeFileSync } = require("fs");
const { join } = require("path");
const katex = require("./katex.min.js");

const place = join(__dirname, "../../src/steadfed/reports/_render/page/formulas.json");
const formulas = JSON.parse(readFileSync(place));
for (const each of Object.values(formulas))
  each.mathml = katex.renderToString(each.tex, { displayMode: true, output: "mathml", strict: "error" });
writeFileSync(place, JSON.stringify(formulas, null, 2) + "\n");
