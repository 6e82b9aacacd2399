"""Text for plots: Plotly reads labels as markup of its own (<b>, <a>, <br>, &lt;), so there it is escaped besides."""

from __future__ import annotations

import textwrap

from steadfed._core.wording import harmless

_WIDTH = 64
"""Letters in a line of a box that follows the pointer."""


def label(text: object, *, limit: int = 80) -> str:
    """Return text for a label of a plot: what looks like markup is shown as it is written.

    >>> label("<b>5 & 6</b>"), label("x" * 90, limit=4)
    ('&lt;b&gt;5 &amp; 6&lt;/b&gt;', 'xxx…')
    """
    return _escaped(harmless(text, limit=limit))


def hover(text: object, *, limit: int = 400) -> str:
    """Return text for a box that follows the pointer: as `label`, in lines that fit on a phone.

    >>> hover("removed: " + "x" * 70).count("<br>")
    1
    """
    lines = [
        part
        for line in harmless(text, limit=limit, keep="\n").splitlines()
        for part in textwrap.wrap(line, _WIDTH, break_on_hyphens=False) or [""]
    ]
    return "<br>".join(map(_escaped, lines))


def _escaped(text: str) -> str:
    """Return text without markup or templates: a space without width stands in %{…}, which Plotly would fill in."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("%{", "%\u200b{")
