"""How the command line words things."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from holdfast.reports.wording import shown

NOTHING = "–"
"""What stands where there is no number."""


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


def percent(share: float | None) -> str:
    """Return a share in percent.

    >>> percent(0.8829), percent(None)
    ('88.3 %', '–')
    """
    return NOTHING if share is None else f"{100 * share:.1f} %"


def number(value: float | None) -> str:
    """Return a number with four digits.

    >>> number(0.41234), number(1234.56), number(None)
    ('0.4123', '1235', '–')
    """
    return NOTHING if value is None else f"{value:.4g}"


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


def harmless(text: object, limit: int = 200) -> str:
    r"""Return text from elsewhere so that a terminal only shows it: no letter in it acts, and a long end is cut.

    Control characters could clear the screen or set its title, directional ones turn a line around. Square brackets
    stay: print the result as `rich.text.Text` or without markup.

    >>> harmless("\x1b[2Jname\n"), harmless("a\u202eb"), harmless("x" * 300, limit=5)
    ('\\x1b[2Jname\\n', 'a\\u202eb', 'xxxx…')
    """
    return shown(text, limit=limit)
