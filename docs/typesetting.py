"""Formulas as this project writes them, in Unicode, turned into TeX for KaTeX: `σ₀ √(f/K)` becomes `$\\sigma_0 \\sqrt{f/K}$`.

Docstrings stay legible in a terminal, and are typeset where the site shows them. Nothing is interpreted: every letter
and every sign of a formula has its counterpart in TeX, in the same order.
"""  # noqa: INP001  a module beside the hooks of mkdocs

from __future__ import annotations

import re
from dataclasses import dataclass, field

GREEK = dict(
    zip(
        "αβγδεζηθκλμνξπρσςτφχψωΓΔΘΛΞΠΣΥΦΨΩϑϱℓ∇∞∅★",
        "alpha beta gamma delta varepsilon zeta eta theta kappa lambda mu nu xi pi rho sigma varsigma tau varphi chi psi omega "
        "Gamma Delta Theta Lambda Xi prod sum Upsilon Phi Psi Omega vartheta varrho ell nabla infty emptyset star".split(),
        strict=True,
    )
)
LETTERS = {"𝒜": r"\mathcal{A}", "𝒮": r"\mathcal{S}", "𝓘": r"\mathcal{I}", "ℰ": r"\mathcal{E}", "ℝ": r"\mathbb{R}"}
LETTERS |= {"ĝ": r"\hat{g}", "ȳ": r"\bar{y}", "ū": r"\bar{u}", "Ã": r"\tilde{A}", "x̂": r"\hat{x}", "½": r"\tfrac{1}{2}", "…": r"\dots"}
LETTERS |= {sign: f"\\{name}" for sign, name in GREEK.items()}
MARKS = {"\u0303": "tilde", "\u0304": "bar", "\u0302": "hat"}
BELOW = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋", "0123456789+-", strict=True))
ABOVE = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-", strict=True)) | {"ᵀ": r"\top"}
RELATIONS = {"=": "=", "≤": r"\le", "≥": r"\ge", "<": r"\lt", ">": r"\gt", "≠": r"\ne", "≈": r"\approx", "≫": r"\gg", "∈": r"\in"}
RELATIONS |= {"∉": r"\notin", "⊂": r"\subset", "⪰": r"\succeq", "⪯": r"\preceq", "∼": r"\sim", "∝": r"\propto", ":=": ":=", "=:": "=:"}
RELATIONS |= {"→": r"\to", "←": r"\leftarrow", "↦": r"\mapsto", "⟺": r"\iff", "≪": r"\ll"}
BINARY = {"+": "+", "−": "-", "·": r"\cdot", "×": r"\times", "±": r"\pm", "∓": r"\mp", "∩": r"\cap", "∪": r"\cup", "∖": r"\setminus"}
FUNCTIONS = {"max", "min", "log", "exp", "ln", "sup", "Pr"}
FUNCTIONS |= (NAMED := {"tr", "Var", "Cov", "Bin", "KL", "rank", "dist", "diag", "lb", "median"})
PRODUCTS = {"tn", "tK", "dK", "xS", "yS", "PY", "Pu", "Pg", "Pw", "HN", "HL", "GH", "Gt", "ij", "vv", "nd", "kt", "dt", "rx", "ru", "tR", "nR"}
SHORT = set("is if in of at as by to or on no so be we it an up do he me my us am go".split())
WORDS_WITHIN = {"past", "excess", "lo", "hi", "update", "error", "floor"}
BRACKETS = {"(": ")", "[": "]", "{": "}", "⟨": "⟩", "⌈": "⌉", "⌊": "⌋", "‖": "‖", "|": "|"}
LEFT = {"(": "(", "[": "[", "{": r"\lbrace", "⟨": r"\langle", "⌈": r"\lceil", "⌊": r"\lfloor", "‖": r"\lVert", "|": r"\lvert"}
RIGHT = {"(": ")", "[": "]", "{": r"\rbrace", "⟨": r"\rangle", "⌈": r"\rceil", "⌊": r"\rfloor", "‖": r"\rVert", "|": r"\rvert"}
TALL = re.compile(r"\\(?:frac|sum|prod|sqrt)")
NUMBER = re.compile(r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e-?\d+)?(?!th\b|nd\b|rd\b|st\b)")
NOUN = r"(?:Theorem|Lemma|Claim|Corollary|Proposition|[Ss]ection|Remark|Fact|Assumption|Algorithm|[Ll]ine|[Tt]est|Row|Table|text|footnote)s?"
LABEL = re.compile(r"\((?:[abcR]|i{1,3}|iv|v|\d+\.\d+′?)\)")
PLAIN = re.compile(
    r"`[^`]+`|!?\[[^\]]*\]\([^)]*\)|<!--.*?-->|</?[a-z][^>]*>|https?://\S+|\$[^$]+\$"
    rf"|\b{NOUN} (?:\d[\d.]*′?|[A-E]\b)(?:(?:,| and| to) (?:\d[\d.]*′?|[A-E])\b(?![_‖⟨\[]))*|(?<![\w)\]])\((?:[abcR]|i{{1,3}}|iv|v|\d+\.\d+′?)\)"
    r"|\b(?!(?:max|min|median|Cov|Var|tr|log|sup)_)[A-Za-z]{2,}[:_-][\w:-]*|\b[A-Za-z]{2,}\d+\b|\barXiv \S+|L-BFGS|\b\w\.\w\.|\d+(?:\.\d+)? %|\*\*|\b[A-Za-z]*[a-z]['’]s\b|\\[\\`*_]",
    re.DOTALL,
)


class NoFormulaError(Exception):
    """What stands here is text."""


@dataclass
class Reader:
    """A place in a text, and how to read on from there."""

    text: str
    display: bool = False
    at: int = 0
    strong: bool = False
    opened: list[str] = field(default_factory=list)

    def peek(self, skip: int = 0) -> str:
        """Return the character that comes next."""
        return self.text[self.at + skip : self.at + skip + 1]

    def space(self) -> bool:
        """Skip blanks (in running text not the end of a paragraph), and say whether there were some."""
        found = re.compile(r"[ \t]*\n?[ \t]*").match(self.text, self.at)
        start, self.at = self.at, found.end() if found else self.at
        return self.at > start

    def relation(self) -> str | None:
        """Read a relation or a binary sign, if one comes."""
        for signs in (RELATIONS, BINARY):
            for sign in sorted(signs, key=len, reverse=True):
                if self.text.startswith(sign, self.at):
                    self.at += len(sign)
                    return signs[sign]
        return None

    def group(self) -> str:
        """Read a formula in brackets."""
        mark, sign = self.at, self.peek()
        close = BRACKETS[sign]
        self.at += 1
        self.opened.append(sign)
        parts: list[str] = []
        while True:
            self.space()
            if not self.peek():
                break
            if self.peek() == close and (parts or sign in "("):
                self.at += 1
                self.opened.pop()
                inside = _joined(parts)
                tall = self.display and TALL.search(inside)
                alone = self.text[mark - 1 : mark] in {"", " ", ")", "("} and self.peek() not in {*"′_^", *BELOW, *ABOVE}
                if alone and self.display and sign == "(" and re.fullmatch(r"\\frac\{[^{}]*\}\{[^{}]*\}", inside):
                    return inside
                left, right = (r"\left", r"\right") if tall else ("", "")
                return f"{left}{LEFT[sign]} {inside} {right}{RIGHT[sign]}".replace("( ", "(").replace(f" {right})", f"{right})")
            if self.peek() in ",;:" and self.text[self.at : self.at + 2] != ":=":
                parts.append(self.peek())
                self.at += 1
            elif self.peek() in "|‖" and sign != self.peek() and self.text[self.at - 1] == " " and self.peek(1) == " ":
                parts.append(r"\mid" if self.peek() == "|" else r"\parallel")
                self.at += 1
            elif self.peek() == "·" and self.peek(1) in " ‖)];":
                parts.append(r"\cdot")
                self.at += 1
            elif (found := self.relation()) is not None:
                parts.append(found)
            elif not self.over(parts):
                try:
                    parts.append(self.term())
                except NoFormulaError:
                    break
        self.at = mark
        self.opened.pop()
        raise NoFormulaError

    def over(self, parts: list[str]) -> bool:
        """Read a slash between blanks and what follows, and make the product before it a fraction."""
        if not self.display or not self.text.startswith("/ ", self.at):
            return False
        self.at += 2
        start = len(parts)
        while start and parts[start - 1] not in {*RELATIONS.values(), *BINARY.values(), ",", ";", r"\qquad"}:
            start -= 1
        product = _joined(parts[start:])
        parts[start:] = [f"\\frac{{{_bare(product)}}}{{{_bare(self.term())}}}"]
        return True

    def term(self) -> str:
        """Read factors that stand together without a blank, and in a displayed formula a fraction of them."""
        parts = [self.factor()]
        while True:
            mark = self.at
            if self.peek() == "/" and self.peek(1) != " ":
                self.at += 1
                try:
                    below = self.factor()
                except NoFormulaError:
                    self.at = mark
                    break
                if self.display:
                    parts = [f"\\frac{{{_bare(_joined(parts))}}}{{{_bare(below)}}}"]
                else:
                    parts += ["/", below]
                    self.strong = self.strong or bool(re.search("[a-zA-Z]", _joined(parts)))
                continue
            if re.match(r"[\w√‖⟨(\[⌈⌊|∇½{\U0001d400-\U0001d7ff]|[∞★ℓ]", self.peek() or " "):
                try:
                    parts.append(self.factor())
                except NoFormulaError:
                    self.at = mark
                    break
                continue
            break
        return _joined(parts)

    def factor(self) -> str:
        """Read one letter, number, name, root or bracket with what is attached to it."""
        here = self.peek()
        if here == "√":
            self.at += 1
            self.strong = True
            inside = self.group() if self.peek() == "(" else self.factor()
            if re.match(r"\\varphi|\\Phi|\\lambda_\{\\max\}|A_2", inside) and self.peek() == "(":
                inside += self.group()
            return f"\\sqrt{{{_bare(inside)}}}"
        if here in BRACKETS and here and not (here in "‖|" and here in self.opened[-1:]):
            if here in "‖⟨⌈⌊|":
                self.strong = True
            base = self.group()
        elif number := NUMBER.match(self.text, self.at):
            self.at = number.end()
            base = _number(number[0]) 
        elif here in LETTERS and here:
            self.at += 1
            self.strong = True
            base = LETTERS[here]
        elif star := re.compile(r"[xFDu]\*(?!\*)").match(self.text, self.at):
            self.at = star.end()
            self.strong = True
            base = f"{star[0][0]}^{{\\ast}}"
        elif word := re.compile(r"[A-Za-z]+").match(self.text, self.at):
            base = self.word(word[0])
        else:
            raise NoFormulaError
        return self.scripts(base)

    def word(self, word: str) -> str:
        """Read a letter, the name of a function, or a product such as tn."""
        before = self.text[self.at - 1 : self.at]
        after = self.text[self.at + len(word) : self.at + len(word) + 1]
        if word in FUNCTIONS:
            self.at += len(word)
            return f"\\operatorname{{{word}}}" if word in NAMED else f"\\{word}"
        tight = bool(re.match(r"[α-ωΑ-Ω\d√‖∇₀-₉²ᵀ*]", before)) or bool(re.match(r"[₀-₉²³ᵀ‖_^⁰-⁹]", after))
        if word in WORDS_WITHIN and (self.opened or self.display or (word == "excess" and re.search(r"[≤≥=·+−] ?$", self.text[: self.at]))):
            self.at += len(word)
            return f"\\text{{{word}}}"
        if len(word) == 1 or (len(word) <= 3 and (tight or word in PRODUCTS or (len(word) == 2 and (self.opened or self.display) and word not in SHORT))):
            if word in {"a", "A", "I"} and not self.opened and not self.display and not self.attached():
                raise NoFormulaError
            self.at += 1
            self.strong = True
            return word[0]
        raise NoFormulaError

    def attached(self) -> bool:
        """Tell whether the letter that comes next, which may be a word, is part of a formula."""
        if re.compile(r"[_′^₀-₉ᵀ/(|‖]|\s?[=≤≥<>∈−+·⟺↦]").match(self.text, self.at + 1):
            return True
        before = self.text[max(0, self.at - 2) : self.at]
        return bool(re.search(r"[=≤≥<>∈−+·/α-ωᵀ}] ?$" if self.peek() == "I" else r"[=≤≥<>∈−+·/] ?$|[α-ω\dᵀ²₀-₉]$", before))

    def scripts(self, base: str) -> str:
        """Read what stands above and below."""
        below, above, primes = "", "", ""
        while here := self.peek():
            if here in MARKS:
                base, self.at, self.strong = f"\\{MARKS[here]}{{{base}}}", self.at + 1, True
            elif here in BELOW:
                below, self.at = below + BELOW[here], self.at + 1
            elif here == "★":
                below, self.at = below + r"\star", self.at + 1
            elif here in ABOVE:
                above, self.at = above + ABOVE[here], self.at + 1
            elif here == "′":
                primes, self.at = primes + "'", self.at + 1
            elif here in "_^" and (found := self.script()):
                below, above = (below + found, above) if here == "_" else (below, above + found)
            else:
                break
            self.strong = True
        if base.endswith(r"^{\ast}"):
            base, above = base[: -len(r"^{\ast}")], r"\ast " + above if above else r"\ast"
        if above:
            above = f"^{{{primes.replace(chr(39), chr(92) + 'prime ')}{above}}}"
        else:
            above = primes
        text = base + (f"_{{{below}}}" if below else "") + above
        return re.sub(r"([_^])\{(\w)\}", r"\1\2", text)

    def script(self) -> str:
        """Read what follows a low line or a caret."""
        text = self.text[self.at + 1 :]
        if text.startswith("{"):
            end = text.index("}", 1) if "{" not in text[1 : text.index("}")] else text.index("}", text.index("}") + 1)
            self.at += end + 2
            return _whole(text[1:end])
        if text.startswith("½"):
            self.at += 2
            return "1/2"
        if found := re.match(r"max|min|known|mean|any|op|accu|GD", text):
            self.at += len(found[0]) + 1
            return f"\\{found[0]}" if found[0] in {"max", "min"} else f"\\text{{{found[0]}}}"
        if found := re.match(r"[A-Za-z]{1,2}(?![a-z]{2})|\d+", text):
            self.at += len(found[0]) + 1
            return found[0]
        if text[:1] in LETTERS and text[:1]:
            self.at += 2
            return LETTERS[text[0]]
        return ""

    def run(self) -> str:
        """Read the longest formula that begins here, without what ends a sentence."""
        parts: list[str] = []
        start = end = self.at
        if re.match(r"[=≤≥<>≈≫∈→]", self.peek() or " ") and not re.search(r"\|\s*$|^\s*$", self.text[:start]):
            raise NoFormulaError
        while True:
            signs: list[str] = []
            while (sign := self.relation()) is not None or (parts and self.text.startswith("/ ", self.at)):
                self.at += 2 * (sign is None)
                signs.append(sign or "/")
                self.space()
            if end != self.at != start and LABEL.match(self.text, self.at):
                break
            try:
                term = self.term()
            except NoFormulaError:
                break
            self.strong = self.strong or bool(signs)
            parts += [*signs, term]
            end = self.at
            self.space()
        self.at = end
        if not parts or not self.strong or end == start:
            raise NoFormulaError
        return _joined(parts)


def _whole(text: str) -> str:
    """Return the TeX of a formula that stands by itself."""
    text = text.replace("-", "−")
    reader = Reader(text, opened=["{"])
    parts: list[str] = []
    while reader.at < len(text):
        if reader.space():
            continue
        if reader.peek() in ",;:":
            parts.append(reader.peek())
            reader.at += 1
        elif (found := reader.relation()) is not None:
            parts.append(found)
        else:
            parts.append(reader.term())
    return _joined(parts)


def _number(text: str) -> str:
    head, e, power = text.partition("e")
    head = head.replace(",", "{,}")
    if not e:
        return head
    return f"10^{{{power}}}" if head == "1" else f"{head} \\cdot 10^{{{power}}}"


def _bare(text: str) -> str:
    """Return a formula without the round brackets that enclose all of it."""
    inside = text.removeprefix(r"\left")
    if not inside.startswith("("):
        return text
    depth = 0
    for place, sign in enumerate(inside):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            whole = place == len(inside) - 1
            return inside[1:-1].removesuffix(r"\right").strip() if whole else text
    return text


def _joined(parts: list[str]) -> str:
    text = " ".join(part for part in parts if part)
    text = re.sub(r" ([,;:](?!=)|\.(?=\s|$))", r"\1", text).replace(" / ", "/").replace("[ ", "[").replace(" ]", "]")
    return re.sub(r"(?<=[\w}]) \((?!\w+\) \\text)", "(", text)


def displayed(text: str) -> str:
    """Return the TeX of a displayed formula, in which there may be words and, at its end, a number in brackets."""
    tag = re.search(r"\s{3,}\((\d[\d.]*′?|R)\)\s*$", text)
    text = text[: tag.start()] if tag else text
    text = re.sub(r"\s*\n\s*", " ", text.strip()).replace("\\|", "|")
    reader = Reader(text, display=True)
    parts: list[str] = []
    while reader.at < len(text):
        wide = re.compile(r" {3,}|(?<=,) {2,}").match(text, reader.at)
        if wide:
            parts.append(r"\qquad")
        reader.space()
        words = re.compile(r"(?:(?!(?:max|min|log|exp|ln|sup|tr|Var|Cov|Bin|KL|lb|Pr|dist|diag|median|excess|error|update|floor)\b)[A-Za-z][a-z'-]+|\([abc]\)|a|is)(?![_^(A-Z′₀-₉])(?: |$|(?=[,.;:)]))").match(text, reader.at)
        if words and (words[0].strip() not in PRODUCTS):
            parts.append(f"\\text{{ {words[0].strip()} }}")
            reader.at = words.end()
        elif reader.peek() in ",.;:∎" and reader.text[reader.at : reader.at + 2] != ":=":
            parts.append({"∎": r"\qquad\blacksquare"}.get(reader.peek(), reader.peek()))
            reader.at += 1
        elif (found := reader.relation()) is not None:
            parts.append(found)
        elif not reader.over(parts) and reader.at < len(text):
            try:
                parts.append(reader.term())
            except NoFormulaError:
                if reader.peek() not in "()":
                    raise
                parts.append(reader.peek())
                reader.at += 1
    tex = re.sub(r" \} \\text\{ ", " ", _joined(parts))
    tex = re.sub(r" \}(?=[,.;:])", "}", tex)
    return tex + (f" \\tag{{{tag[1].replace('′', chr(39))}}}" if tag else "")


def inline(text: str) -> str:
    """Return running text with its formulas between dollars."""
    out: list[str] = []
    at = 0
    while at < len(text):
        if plain := PLAIN.match(text, at):
            out.append(plain[0])
            at = plain.end()
            continue
        here = text[at]
        previous = text[at - 1 : at]
        if re.match(r"\w", previous or " ") and re.match(r"[A-Za-z\d]", here):
            out.append(here)
            at += 1
            continue
        if word := re.compile(r"[A-Za-z]{2,}").match(text, at):
            followed = text[word.end() : word.end() + 1]
            known = word[0] in FUNCTIONS | PRODUCTS or followed in "²³ᵀ‖₀" and followed and len(word[0]) <= 3
            if not known:
                out.append(word[0])
                at = word.end()
                continue
        reader = Reader(text, at=at)
        try:
            tex = reader.run()
        except NoFormulaError:
            out.append(here)
            at += 1
            continue
        raw = text[at : reader.at]
        if here == "(" and _closes(raw):
            out.append("(")
            at += 1
            continue
        out.append(f"${tex}$")
        at = reader.at
    return re.sub(r"\$ ([.,;:])(?=\s|$)", r"$\1", "".join(out))


def _closes(raw: str) -> bool:
    """Tell whether the first bracket closes at the very end."""
    depth = 0
    for place, sign in enumerate(raw):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return place == len(raw) - 1
    return False
