r"""Text as a page shows it: nothing in it acts, whoever wrote it.

A page has two kinds of readers of text. The document takes it as it is (`shown`), for scripts set it as text and never
as markup. Plotly reads labels as markup of its own (<b>, <a>, <br>, &lt;), so there it is escaped besides (`label`).
"""

from __future__ import annotations

import textwrap

KEPT = "\n\t"
"""What paragraphs and code may hold besides letters that show."""
LONGEST = 2_000
"""A text from elsewhere is cut after so many letters."""
_WIDTH = 64
"""Letters in a line of a box that follows the pointer."""


def shown(text: object, *, limit: int = LONGEST, keep: str = "") -> str:
    r"""Return text in which no letter acts: control and directional ones are spelled out, a long end is cut.

    >>> shown("\x1b[2Jname\n"), shown("a\u202eb"), shown("x" * 300, limit=5)
    ('\\x1b[2Jname\\n', 'a\\u202eb', 'xxxx…')
    """
    whole = str(text)
    parts = [letter if letter.isprintable() or letter in keep else _spelled(letter) for letter in whole[: limit + 1]]
    found = "".join(parts)
    return found if len(found) <= limit else f"{found[: limit - 1]}…"


def prose(text: object) -> str:
    r"""Return paragraphs or code: ends of lines stay, and nothing is cut.

    >>> prose("holdfast run a.toml\nholdfast show runs/a")
    'holdfast run a.toml\nholdfast show runs/a'
    """
    whole = str(text)
    return shown(whole, limit=max(10 * len(whole), 1), keep=KEPT)


def plural(count: int, noun: str, several: str | None = None) -> str:
    """Return a count with its noun.

    >>> plural(1, "round"), plural(2000, "round"), plural(2, "reply", "replies")
    ('1 round', '2,000 rounds', '2 replies')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {several or noun + 's'}"


def label(text: object, *, limit: int = 80) -> str:
    """Return text for a label of a plot: what looks like markup is shown as it is written.

    >>> label("<b>5 & 6</b>"), label("x" * 90, limit=4)
    ('&lt;b&gt;5 &amp; 6&lt;/b&gt;', 'xxx…')
    """
    return _escaped(shown(text, limit=limit))


def hover(text: object, *, limit: int = 400) -> str:
    """Return text for a box that follows the pointer: as `label`, in lines that fit on a phone.

    >>> hover("removed: " + "x" * 70).count("<br>")
    1
    """
    lines = [
        part
        for line in shown(text, limit=limit, keep="\n").splitlines()
        for part in textwrap.wrap(line, _WIDTH, break_on_hyphens=False) or [""]
    ]
    return "<br>".join(map(_escaped, lines))


def _escaped(text: str) -> str:
    """Return text without markup or templates: a space without width stands in %{…}, which Plotly would fill in."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("%{", "%\u200b{")


def _spelled(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
