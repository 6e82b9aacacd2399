"""Text of others as values: whole numbers, TOML and JSON, bounded before they are read.

Python reads whole numbers of any length, and then raises errors of other kinds than its parsers do: of more than 4,300
digits it reads and writes none in decimal, of more than 308 it makes no float, and of more than 19 no array takes it.
Tables in tables end in a RecursionError. Whatever comes from a file, an address or the command line passes through here
and is either a value that everything else can use, or one `ParameterError`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from steadfed._core.values import LARGEST_WHOLE
from steadfed.errors import ParameterError

_LONGEST = 40
"""Letters of a whole number, zeros in front among them."""
_DEEPEST = 32
"""Tables in tables of a TOML text."""
_CHAIN = re.compile(
    rf"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{_DEEPEST}}}""",
)
"""A key of so many parts that Python's parser takes the square of their number to read it."""
_TOO_DEEP = f"it has tables in tables, more than {_DEEPEST}"


def parse_whole(text: str, least: int, most: int | None = None) -> int:
    """Return the whole number from `least` to `most` that a text is; one of 63 bits without a `most`.

    >>> parse_whole("0015", 1, 200), parse_whole(" -3", -5)
    (15, -3)
    >>> parse_whole("0000000015000", 1, 200)
    Traceback (most recent call last):
    ...
    steadfed.errors.ParameterError: expected a whole number from 1 to 200, got '0000000015000'

    Raises:
        ParameterError: it is none, or another.
    """
    try:
        number = int(text) if len(text) <= _LONGEST and text.isascii() else None
    except ValueError:
        number = None
    if number is None or not least <= number <= (LARGEST_WHOLE - 1 if most is None else most):
        allowed = f"of at least {least:,}" if most is None else f"from {least:,} to {most:,}"
        raise ParameterError(f"expected a whole number {allowed}, got {text[:_LONGEST]!r}")
    return number


def parse_toml(text: str) -> dict[str, Any]:
    """Return the table that a TOML text holds.

    >>> parse_toml("rounds = 5")
    {'rounds': 5}
    >>> parse_toml("a" + ".a" * 100_000 + " = 1")
    Traceback (most recent call last):
    ...
    steadfed.errors.ParameterError: not valid TOML: it has tables in tables, more than 32

    Raises:
        ParameterError: it is no TOML, has whole numbers that TOML does not have, or would take for ever to read.
    """
    if _CHAIN.search(text):
        raise ParameterError(f"not valid TOML: {_TOO_DEEP}")
    try:
        table = tomllib.loads(text)
    except RecursionError:
        raise ParameterError(f"not valid TOML: {_TOO_DEEP}") from None
    except ValueError as error:  # tomllib's own, or int's
        raise ParameterError(f"not valid TOML: {error}") from None
    if (problem := _problem(table, _DEEPEST)) is not None:
        raise ParameterError(f"not valid TOML: {problem}")
    return table


def parse_json(text: str | bytes) -> Any:
    """Return the value that a JSON text holds.

    >>> parse_json('{"rounds": [1, NaN]}')
    {'rounds': [1, nan]}
    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ...
    steadfed.errors.ParameterError: not valid JSON: it has lists in lists without end

    Raises:
        ParameterError: it is no JSON, or has whole numbers of more than 40 letters.
    """
    try:
        return json.loads(text, parse_int=_whole)
    except RecursionError:
        raise ParameterError("not valid JSON: it has lists in lists without end") from None
    except ValueError as error:  # json's own, of the encoding, or of a number
        raise ParameterError(f"not valid JSON: {error}") from None


def _whole(text: str) -> int:
    """Return a whole number of JSON: what a seed may be, and a float can come near."""
    if len(text) > _LONGEST:
        raise ValueError(f"a whole number may have {_LONGEST} letters, got {len(text):,}")
    return int(text)


def _problem(value: Any, depth: int) -> str | None:
    """Return what is wrong with a value of TOML: tables too deep to be walked through, numbers too large to be used."""
    if isinstance(value, Mapping | list):
        if not depth:
            return _TOO_DEEP
        inside = value.values() if isinstance(value, Mapping) else value
        return next((found for each in inside if (found := _problem(each, depth - 1)) is not None), None)
    if isinstance(value, int) and abs(value) >= LARGEST_WHOLE:
        return "it has a whole number beyond 64 bits"
    return None
