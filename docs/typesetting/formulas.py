"""Finds the formulas of a text."""

from __future__ import annotations

import re

from typesetting.reader import LABEL, NoFormulaError, Reader, bare, joined
from typesetting.signs import FUNCTIONS, PRODUCTS

NOUN = "Theorem|Lemma|Claim|Corollary|Proposition|[Ss]ection|Remark|Fact|Assumption|Algorithm|[Ll]ine|[Tt]est|Row|Table"
PLACE = r"(?:\d[\d.]*′?|[A-E])\b"
PLAIN = re.compile(
    "|".join(
        (
            r"`[^`]+`|!?\[[^\]]*\]\([^)]*\)|!?\[[^\]]*\]\[[^\]]*\]|<!--.*?-->|</?[a-z][^>]*>|https?://\S+|\$[^$]+\$",
            rf"\b(?:{NOUN}|text|footnote)s? {PLACE}(?:(?:,| and| to) {PLACE}(?![_‖⟨\[]))*",
            rf"(?<![\w)\]]){LABEL.pattern}",
            r"\b(?!(?:max|min|median|Cov|Var|tr|log|sup)_)[A-Za-z]{2,}[:_-][\w:-]*|\b[A-Za-z]{2,}\d+\b",
            r"\barXiv \S+|L-BFGS|\b\w\.\w\.|\d+(?:\.\d+)? %|\*\*|\b[A-Za-z]*[a-z]['’]s\b|\\[\\`*_|]",
        )
    ),
    re.DOTALL,
)
WORDS = re.compile(
    rf"(?:(?!(?:{'|'.join(sorted(FUNCTIONS))}|excess|error|update|floor)\b)[A-Za-z][a-z'-]+|\([abc]\)|a|is)"
    r"(?![_^(A-Z′₀-₉])(?: |$|(?=[,.;:)]))"
)


TAG = re.compile(r"\s{3,}\((\d[\d.]*′?)\)\s*$")
WIDE = re.compile(r" {3,}|(?<=,) {2,}")
FENCE = re.compile(r"^ *(?:```|>>>)")
ITEM = re.compile(r" *(?:\d+\.|[*-]|[*\w]+(?: \([^)]*\))?:) ")
"""The beginning of an item of a list, or of a parameter."""


def displayed(text: str) -> str:
    """Return the TeX of a displayed formula, in which there may be words and, at its end, a number in brackets."""
    tag = TAG.search(text)
    text = re.sub(r"\s*\n\s*", " ", text[: tag.start() if tag else None].strip())
    reader = Reader(text, display=True)
    parts: list[str] = []
    while reader.at < len(text):
        if WIDE.match(text, reader.at):
            parts.append(r"\qquad")
        reader.space()
        parts += _part(reader, parts)
    tex = joined(parts).replace(r" } \text{ ", " ")
    tex = re.sub(r" \}(?=[,.;:])", "}", tex)
    return tex + (rf" \tag{{{tag[1]}}}".replace("′", "'") if tag else "")


def _part(reader: Reader, parts: list[str]) -> list[str]:
    """Read the next words, sign or term of a displayed formula."""
    here = reader.peek()
    words = WORDS.match(reader.text, reader.at)
    if words and words[0].strip() not in PRODUCTS:
        reader.at = words.end()
        return [rf"\text{{ {words[0].strip()} }}"]
    if here in {".", "∎"}:
        reader.at += 1
        return [here.replace("∎", r"\qquad\blacksquare")]
    try:
        return reader.within("{", parts)
    except NoFormulaError:
        if here not in {"(", ")"}:  # a remark in brackets
            raise
        reader.at += 1
        return [here]


def inline(text: str) -> str:
    """Return running text with its formulas between dollars."""
    out: list[str] = []
    at = 0
    while at < len(text):
        found, to = _next(text, at)
        out.append(found)
        at = to
    return re.sub(r"\$ ([.,;:])(?=\s|$)", r"$\1", "".join(out))


def _next(text: str, at: int) -> tuple[str, int]:
    """Return the next word, sign or formula of a text, and where it ends."""
    if plain := PLAIN.match(text, at):
        return plain[0], plain.end()
    if re.match(r"\w[A-Za-z\d]", text[max(0, at - 1) : at + 1]) and at:
        return text[at], at + 1
    if word := re.compile(r"[A-Za-z]{2,}").match(text, at):
        followed = text[word.end() : word.end() + 1]
        if word[0] not in FUNCTIONS | PRODUCTS and (followed not in {*"²³ᵀ‖₀"} or len(word[0]) > 3):
            return word[0], word.end()
    reader = Reader(text, at=at)
    try:
        tex = reader.run()
    except NoFormulaError:
        return text[at], at + 1
    if bare(text[at : reader.at]) != text[at : reader.at]:  # the brackets are those of the sentence
        return text[at], at + 1
    return f"${tex}$", reader.at


def page(text: str) -> str:
    """Return a page, or a docstring, with all its formulas typeset; code stays as it is."""
    out: list[str] = []
    code = False
    for block in re.split(r"(\n[ \t]*(?=\n))", text):
        begins = bool(FENCE.match(block.lstrip("\n")))
        fences = len(re.findall(r"^ *```", block, re.MULTILINE))
        if code or begins or fences:
            out.append(block)
        else:
            out.append(_block(block))
        code = code != bool(fences % 2)
    return "".join(out)


def _block(text: str) -> str:
    """Return a paragraph, a table, a list or a displayed formula."""
    lines = text.strip("\n").split("\n")
    start = text[: len(text) - len(text.lstrip("\n"))]
    if text.strip() and all(re.match(r" {4}\S", line) for line in lines) and not ITEM.match(lines[0]):
        try:
            return start + "\n\n".join(f"$$\n{displayed(line)}\n$$" for line in lines)
        except NoFormulaError:
            return text
    if re.match(r" *#", lines[0]):
        return start + "\n".join([lines[0], *([inline("\n".join(lines[1:]))] if lines[1:] else [])])
    if lines[0].startswith("|"):
        return start + "\n".join("|".join(map(inline, re.split(r"(?<!\\)\|", line))) for line in lines)
    items = re.split(rf"(?m)^(?={ITEM.pattern})", "\n".join(lines))
    return start + "".join(_item(item) for item in items)


def _item(text: str) -> str:
    head = ITEM.match(text)
    return text[: head.end() if head else 0] + inline(text[head.end() if head else 0 :])
