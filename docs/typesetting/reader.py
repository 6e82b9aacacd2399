"""Reads formulas, sign by sign."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from typesetting.signs import (
    ABOVE,
    BELOW,
    BINARY,
    BRACKETS,
    FUNCTIONS,
    LETTERS,
    MARKS,
    NAMED,
    PRODUCTS,
    RELATIONS,
    SHORT,
    WITHIN,
)

TALL = re.compile(r"\\(?:frac|sum|prod|sqrt)")
NUMBER = re.compile(r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e-?\d+)?(?!th\b|nd\b|rd\b|st\b)")
LABEL = re.compile(r"\((?:[abcR]|i{1,3}|iv|v|\d+\.\d+′?)\)")
FRACTION = re.compile(r"\\frac\{[^{}]*\}\{[^{}]*\}")
FACTOR = re.compile(r"[\w√‖⟨(\[⌈⌊|∇½{\U0001d400-\U0001d7ff∞★ℓ]")
SPACE = re.compile(r"[ \t]*\n?[ \t]*")
STAR = re.compile(r"[xFDu]\*(?!\*)")
WORD = re.compile(r"[A-Za-z]+")
OF_VALUES = re.compile(r"\\varphi|\\Phi|\\lambda_\{\\max\}|\\lambda$|A_2")
SINGLE = re.compile(r"([_^])\{(\w)\}")
BRACED = re.compile(r"\{((?:[^{}]|\{[^{}]*\})*)\}")
SUBSCRIPT = re.compile(r"max|min|known|mean|any|op|accu|GD|[A-Za-z]{1,2}(?![a-z]{2})|\d+")
SUBSCRIPTS = {"max": r"\max", "min": r"\min"} | {
    word: rf"\text{{{word}}}" for word in ("known", "mean", "any", "op", "accu", "GD")
}
ATTACHED = re.compile(r"[_′^₀-₉ᵀ/(|‖]|\s?[=≤≥<>∈−+·⟺↦]")
FACTORS_BEFORE_I = re.compile(r"[=≤≥<>∈−+·/α-ωᵀ}] ?$")
FACTORS_BEFORE_A = re.compile(r"[=≤≥<>∈−+·/] ?$|[α-ω\dᵀ²₀-₉]$")
BEGINS_NOTHING = re.compile(r"[=≤≥<>≈≫∈→]")
TIGHT_BEFORE = re.compile(r"[α-ωΑ-Ω\d√‖∇₀-₉²ᵀ*]")
TIGHT_AFTER = re.compile(r"[₀-₉²³ᵀ‖_^⁰-⁹]")


class NoFormulaError(Exception):
    """What stands here is text."""


@dataclass
class Reader:
    """A place in a text, and how to read on from there."""

    text: str
    display: bool = False
    at: int = 0
    strong: bool = False
    """Whether something was read that is no word and no plain number."""
    opened: list[str] = field(default_factory=list)
    """The brackets around this place."""

    def peek(self, skip: int = 0) -> str:
        """Return the character that comes next."""
        return self.text[self.at + skip : self.at + skip + 1]

    def take(self, number: int = 1) -> str:
        """Go on, past something that belongs to a formula."""
        self.at += number
        self.strong = True
        return self.text[self.at - number : self.at]

    def space(self) -> bool:
        """Skip blanks (in running text not the end of a paragraph), and say whether there were some."""
        found = SPACE.match(self.text, self.at)
        start, self.at = self.at, found.end() if found else self.at
        return self.at > start

    def relation(self) -> str | None:
        """Read a relation or a binary sign, if one comes."""
        for signs in (RELATIONS, BINARY):
            for sign in signs:
                if self.text.startswith(sign, self.at):
                    self.at += len(sign)
                    return signs[sign]
        return None

    def group(self) -> str:
        """Read a formula in brackets."""
        mark, sign = self.at, self.peek()
        self.at += 1
        self.opened.append(sign)
        parts: list[str] = []
        try:
            self.space()
            while self.peek() != BRACKETS[sign][0] or not (parts or sign == "("):
                parts += self.within(sign, parts)
                self.space()
        except NoFormulaError:
            self.at = mark
            raise
        finally:
            self.opened.pop()
        self.at += 1
        return self.enclosed(sign, joined(parts), self.text[mark - 1 : mark])

    def within(self, sign: str, parts: list[str]) -> list[str]:
        """Read the next part of what stands in brackets."""
        here = self.peek()
        if here in {",", ";", ":"} and self.peek(1) != "=":
            self.at += 1
            return [here]
        if here in {"|", "‖"} and sign != here and self.text[self.at - 1] == " " == self.peek(1):
            self.at += 1
            return [r"\mid" if here == "|" else r"\parallel"]
        if here == "·" and self.peek(1) in {" ", "‖", ")", "]", ";"}:
            self.at += 1
            return [r"\cdot"]
        if (found := self.relation()) is not None:
            return [found]
        return [] if self.over(parts) else [self.term()]

    def enclosed(self, sign: str, inside: str, before: str) -> str:
        """Return what was read with its brackets; in a displayed formula they grow, and go if they hold a fraction."""
        alone = before in {"", " ", ")", "("} and self.peek() not in {*"′_^", *BELOW, *ABOVE}
        if self.display and sign == "(" and alone and FRACTION.fullmatch(inside):
            return inside
        left, right = BRACKETS[sign][1:]
        if self.display and TALL.search(inside):
            left, right = rf"\left{left}", rf"\right{right}"
        return f"{left}{inside}{right}" if sign in {"(", "["} else f"{left} {inside} {right}"

    def over(self, parts: list[str]) -> bool:
        """Read a slash between blanks; in a displayed formula make a fraction of what is around it."""
        if not self.text.startswith("/ ", self.at):
            return False
        self.at += 2
        if not self.display:
            parts.append("/")
            return True
        start = len(parts)
        while start and parts[start - 1] not in {*RELATIONS.values(), *BINARY.values(), ",", ";", r"\qquad"}:
            start -= 1
        below = self.term()
        parts[start:] = [rf"\frac{{{bare(joined(parts[start:]))}}}{{{bare(below)}}}"]
        return True

    def term(self) -> str:
        """Read factors that stand together without a blank, and in a displayed formula a fraction of them."""
        parts = [self.factor()]
        while True:
            mark = self.at
            slash = self.peek() == "/" and self.peek(1) != " "
            if not slash and not FACTOR.match(self.peek()):
                return joined(parts)
            self.at += slash
            try:
                found = self.factor()
            except NoFormulaError:
                self.at = mark
                return joined(parts)
            if slash and self.display:
                parts = [rf"\frac{{{bare(joined(parts))}}}{{{bare(found)}}}"]
            else:
                parts += ["/", found] if slash else [found]

    def factor(self) -> str:
        """Read one letter, number, name, root or bracket with what is attached to it."""
        here = self.peek()
        if here == "√":
            return self.root()
        if here in BRACKETS and not (here in {"‖", "|"} and here in self.opened[-1:]):
            base = self.group()
            self.strong = self.strong or here not in "([{"
        elif number := NUMBER.match(self.text, self.at):
            self.at = number.end()
            base = _number(number[0])
        elif here in LETTERS:
            base = LETTERS[self.take()]
        elif STAR.match(self.text, self.at):
            base = rf"{self.take(2)[0]}^{{\ast}}"
        elif word := WORD.match(self.text, self.at):
            base = self.word(word[0])
        else:
            raise NoFormulaError
        return self.scripts(base)

    def root(self) -> str:
        """Read a root: of a bracket, of a single factor, or of the value of a function."""
        self.take()
        inside = self.group() if self.peek() == "(" else self.factor()
        if OF_VALUES.match(inside) and self.peek() == "(":
            inside += self.group()
        return rf"\sqrt{{{bare(inside)}}}"

    def word(self, word: str) -> str:
        """Read a letter, the name of a function, or a product such as tn."""
        deep = bool(self.opened) or self.display
        if word in FUNCTIONS:
            self.at += len(word)
            return rf"\operatorname{{{word}}}" if word in NAMED else f"\\{word}"
        if word in WITHIN and (deep or (word == "excess" and re.search(r"[≤≥=·+−] ?$", self.text[: self.at]))):
            self.at += len(word)
            return rf"\text{{{word}}}"
        if len(word) == 1:
            if word in {"a", "A", "I"} and not deep and not self.attached():
                raise NoFormulaError
            return self.take()
        tight = TIGHT_BEFORE.match(self.text[self.at - 1 : self.at]) or TIGHT_AFTER.match(self.peek(len(word)))
        known = tight or word in PRODUCTS or (len(word) == 2 and deep and word not in SHORT)
        if len(word) > 3 or not known:
            raise NoFormulaError
        return self.take()

    def attached(self) -> bool:
        """Tell whether the letter that comes next, which may be a word, is part of a formula."""
        if ATTACHED.match(self.text, self.at + 1):
            return True
        before = self.text[max(0, self.at - 2) : self.at]
        return bool((FACTORS_BEFORE_I if self.peek() == "I" else FACTORS_BEFORE_A).search(before))

    def scripts(self, base: str) -> str:
        """Read what stands above and below."""
        below, above, primes = "", "", ""
        while here := self.peek():
            if here in MARKS:
                base = rf"\{MARKS[self.take()]}{{{base}}}"
            elif here in BELOW or here == "★":
                below += BELOW.get(self.take(), r"\star")
            elif here in ABOVE:
                above += ABOVE[self.take()]
            elif here == "′":
                primes += self.take().replace("′", "'")
            elif here == "_" and (found := self.script()):
                below += found
            elif here == "^" and (found := self.script()):
                above += found
            else:
                break
        if base.endswith(r"^{\ast}"):
            base, above = base.removesuffix(r"^{\ast}"), rf"\ast {above}".rstrip()
        primes = primes.replace("'", r"\prime ") if above else primes
        above = f"^{{{primes}{above}}}" if above else primes
        return SINGLE.sub(r"\1\2", base + (f"_{{{below}}}" if below else "") + above)

    def script(self) -> str:
        """Read what follows a low line or a caret."""
        text = self.text[self.at + 1 :]
        if text.startswith("{") and (found := BRACED.match(text)):
            self.take(len(found[0]) + 1)
            return whole(found[1])
        if found := SUBSCRIPT.match(text):
            self.take(len(found[0]) + 1)
            return SUBSCRIPTS.get(found[0], found[0])
        if text.startswith("("):
            self.take()
            return self.group()
        if text[:1] in {"½", *LETTERS}:
            self.take(2)
            return "1/2" if text[0] == "½" else LETTERS[text[0]]
        return ""

    def run(self) -> str:
        """Read the longest formula that begins here, without what ends a sentence."""
        parts: list[str] = []
        start = end = self.at
        if BEGINS_NOTHING.match(self.peek()) and not re.search(r"\|\s*$|^\s*$", self.text[:start]):
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
        if not parts or not self.strong:
            raise NoFormulaError
        return joined(parts)


def whole(text: str) -> str:
    """Return the TeX of a formula that stands by itself."""
    text = text.replace("-", "−")
    reader = Reader(text, opened=["{"])
    parts: list[str] = []
    reader.space()
    while reader.at < len(text):
        parts += reader.within("{", parts)
        reader.space()
    return joined(parts)


def _number(text: str) -> str:
    head, e, power = text.partition("e")
    head = head.replace(",", "{,}")
    if not e:
        return head
    return f"10^{{{power}}}" if head == "1" else f"{head} \\cdot 10^{{{power}}}"


def bare(text: str) -> str:
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


def joined(parts: list[str]) -> str:
    """Return parts of a formula as one."""
    text = " ".join(part for part in parts if part)
    text = re.sub(r" ([,;:](?!=)|\.(?=\s|$))", r"\1", text).replace(" / ", "/")
    return re.sub(r"(?<=[\w}]) \((?!\w+\) \\text)", "(", text)
