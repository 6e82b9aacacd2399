r"""How numbers, counts, times and names are worded, for whoever shows them: one way for all.

Text may come from clients. A terminal and a page take it as `harmless` returns it: nothing in it acts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from unicodedata import category

NOTHING = "–"
"""What stands where there is no number."""
KEPT = "\n\t"
"""What paragraphs and code may hold besides letters that show."""
MOST_MARKS = 3
"""Marks (accents, vowel signs) on one letter; hardly any word has more."""
LONGEST = 2_000
"""A text from elsewhere is cut after so many letters."""


def percent(share: float | None, digits: int = 1) -> str:
    """Return a share in percent; one that is not quite nothing or everything does not look so.

    >>> percent(0.8829), percent(0.0004), percent(0.99996), percent(0.21), percent(None)
    ('88.3 %', '< 0.1 %', '> 99.9 %', '21.0 %', '–')
    >>> percent(0.95, 0), percent(0.004, 0), percent(1.0, 0)
    ('95 %', '< 1 %', '100 %')
    """
    if share is None:
        return NOTHING
    least = 10.0**-digits
    if 0.0 < 100 * share < least:
        return f"< {least:.{digits}f} %"
    return f"> {100 - least:.{digits}f} %" if 100 - least < 100 * share < 100 else f"{100 * share:.{digits}f} %"


def size(number: float) -> str:
    """Return a number of bytes with three digits.

    >>> size(216), size(1536), size(2_000_000), size(999_999), size(3.22e12)
    ('216 B', '1.54 kB', '2 MB', '1 MB', '3.22 TB')
    """
    rounded = float(f"{number:.3g}")
    for prefix in ("", "k", "M", "G"):
        if rounded < 1000:
            return f"{rounded:g} {prefix}B"
        rounded /= 1000
    return f"{rounded:g} TB"


def number(value: float | None) -> str:
    """Return a number with four digits; a whole one with all.

    >>> number(0.41234), number(1234.56), number(12_345), number(2e12), number(None)
    ('0.4123', '1,235', '12,345', '2e+12', '–')
    """
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if isinstance(value, int) or 1_000 <= abs(value) < 1e9 else f"{value:.4g}"


def plural(count: int, noun: str, several: str | None = None) -> str:
    """Return a count with its noun.

    >>> plural(1, "round"), plural(2000, "round"), plural(2, "reply", "replies")
    ('1 round', '2,000 rounds', '2 replies')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {several or noun + 's'}"


def ordinal(number: int) -> str:
    """Return which one of several it is.

    >>> [ordinal(each) for each in (1, 2, 3, 4, 11, 12, 21, 102, 113, 1003)]
    ['1st', '2nd', '3rd', '4th', '11th', '12th', '21st', '102nd', '113th', '1,003rd']
    """
    teens = number // 10 % 10 == 1
    return f"{number:,}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def joined(words: Sequence[str]) -> str:
    """Return words as a list in a sentence.

    >>> joined(["a"]), joined(["a", "b"]), joined(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return " and ".join([*([", ".join(words[:-1])] if len(words) > 1 else []), *words[-1:]])


def markdown_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    r"""Return the lines of a table in Markdown, an empty one last; nothing where there are no rows.

    >>> markdown_table(["a", "b"], [("1", "x|y")])
    ['| a | b |', '|---|---|', '| 1 | x\\|y |', '']
    """
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return [f"| {' | '.join(titles)} |", "|" + "---|" * len(titles), *lines, ""] if lines else []


def ranges(numbers: Iterable[int]) -> str:
    """Return ascending numbers with runs shortened.

    >>> ranges([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7, 8'
    """
    texts = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        texts += [f"{members[0]}-{members[-1]}"] if len(members) > 2 else [str(number) for number in members]
    return ", ".join(texts)


def duration(seconds: float) -> str:
    """Return a time in the two largest units that it has.

    >>> duration(0.04), duration(12.3), duration(185), duration(7890)
    ('0.0 s', '12 s', '3 min 5 s', '2 h 12 min')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def clock(seconds: float) -> str:
    """Return a time as a clock shows it.

    >>> clock(5), clock(185), clock(7890)
    ('0:05', '3:05', '2:11:30')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def harmless(text: object, *, limit: int = LONGEST, keep: str = "") -> str:
    r"""Return text in which no letter acts: control and directional ones are spelled out, a long end is cut.

    So are marks that no letter carries, at the beginning or after three others: they show nothing, or fill the lines
    above and below. Control characters could clear a screen or set its title, directional ones turn a line around.
    Square brackets and angles stay: whoever prints the result prints it without markup.

    >>> harmless("\x1b[2Jname\n"), harmless("a\u202eb"), harmless("x" * 300, limit=5)
    ('\\x1b[2Jname\\n', 'a\\u202eb', 'xxxx…')
    >>> harmless("\u0301"), harmless("e\u0301") == "e\u0301", harmless("e" + "\u0301" * 4)[-6:]
    ('\\u0301', True, '\\u0301')
    """
    whole = str(text)
    begun = whole[: limit + 1]
    parts = [letter if letter.isprintable() or letter in keep else _spelled(letter) for letter in begun]
    found = "".join(parts if begun.isascii() else _with_few_marks(parts))
    return found if len(found) <= limit else f"{found[: limit - 1]}…"


def prose(text: object) -> str:
    r"""Return paragraphs or code: ends of lines stay, and nothing is cut.

    >>> prose("steadfed run a.toml\nsteadfed show runs/a")
    'steadfed run a.toml\nsteadfed show runs/a'
    """
    whole = str(text)
    return harmless(whole, limit=max(10 * len(whole), 1), keep=KEPT)


def _with_few_marks(letters: Iterable[str]) -> Iterator[str]:
    """Yield letters, and marks on them as far as writing has use for them."""
    marks = MOST_MARKS
    for letter in letters:
        marks = marks + 1 if len(letter) == 1 and category(letter) in {"Mn", "Me"} else 0
        yield letter if marks <= MOST_MARKS else _spelled(letter)


def _spelled(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
