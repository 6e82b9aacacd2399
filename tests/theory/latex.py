r"""What a LaTeX source states: labels, footnotes, remarks, headed paragraphs, and formulas in running text, by place.

A place is the label of the section in which something stands, or its heading in lower case with hyphens if it has none.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

HEADING = re.compile(r"\\(?:sub)*section\*?\{")
NUMBERED = "theorem|lemma|claim|fact|assumption|remark|proof|algorithm|align|equation"
SET_APART = re.compile(rf"\\begin\{{({NUMBERED})(\*?)\}}.*?\\end\{{\1\2\}}|\$\$.*?\$\$", re.DOTALL)
INLINE = re.compile(r"(?<!\\)\$([^$]+)\$")
RELATION = re.compile(r"\\leq|\\geq|[<>=]|\\calO|\\Omega")


@dataclass(frozen=True)
class Latex:
    """The text between \\begin{document} and the end, without comments."""

    source: str

    @cached_property
    def body(self) -> str:
        text = re.sub(r"(?<!\\)%.*", "", self.source)
        return text.partition(r"\begin{document}")[2] or text

    @property
    def labels(self) -> list[str]:
        return re.findall(r"\\label\{([^}]*)\}", self.body)

    @property
    def footnotes(self) -> list[str]:
        """The places of all footnotes."""
        return [self._place(match.start()) for match in re.finditer(r"\\footnote\{", self.body)]

    @property
    def remarks(self) -> list[str]:
        """The places of all numbered remarks."""
        return [self._place(match.start()) for match in re.finditer(r"\\begin\{remark\}", self.body)]

    @property
    def paragraphs(self) -> list[str]:
        """The places of all paragraphs with a heading of their own."""
        return [self._place(match.start()) for match in re.finditer(r"\\paragraph\{", self.body)]

    @property
    def formulas(self) -> dict[str, int]:
        """How many formulas with a relation or an order stand in running text, outside of what is set apart."""
        blanked = SET_APART.sub(lambda match: " " * len(match[0]), self.body)
        counted = Counter(self._place(match.start()) for match in INLINE.finditer(blanked) if RELATION.search(match[1]))
        return dict(counted)

    @cached_property
    def _headings(self) -> list[tuple[int, str]]:
        found = [(0, "abstract")]
        for match in HEADING.finditer(self.body):
            title, after = _braced(self.body, match.end())
            label = re.match(r"\s*\\label\{([^}]*)\}", self.body[after:])
            found.append((match.start(), label[1] if label else _slug(title)))
        return found

    def _place(self, position: int) -> str:
        return self._headings[bisect_right([start for start, _ in self._headings], position) - 1][1]


def _braced(text: str, start: int) -> tuple[str, int]:
    """Return what stands up to the brace that closes the one before `start`, and where it ends."""
    depth, end = 1, start
    while depth:
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
    return text[start : end - 1], end


def _slug(title: str) -> str:
    words = re.findall(r"[a-z]+", re.sub(r"\$[^$]*\$|\\\w+(\{[^}]*\})?", " ", title).lower())
    return "-".join(words)
