"""Value objects: small, frozen, keyword-only, validated; the object IS its configuration."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from steadfed._core.lookup import nearest
from steadfed.errors import ParameterError

LARGEST_WHOLE = 2**63
"""From here on a whole number is none that TOML, arrays or the formulas take, although Python has larger ones."""
_SHOWN = 400
"""Letters of a value that a message shows."""


def whole_number(value: Any) -> Any:
    """Return any kind of integer (numpy's among them) as an int; booleans and everything else are refused."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError("input should be a whole number")
    number = operator.index(value)
    if abs(number) >= LARGEST_WHOLE:
        raise ValueError("input should be a whole number of at most 63 bits")
    return number


def real_number(value: Any) -> Any:
    """Return any kind of real number (numpy's among them) as a float; booleans, strings and others are refused."""
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__"):
        raise ValueError("input should be a real number")
    try:
        return float(value)
    except OverflowError:
        raise ValueError("input should be a real number of at most 1.8e308") from None


def shown(value: object) -> str:
    """Return a value as code writes it, for a message: a long one is cut, and so is a number that Python cannot write.

    >>> shown([1, "a"]), len(shown("x" * 10_000)), shown([1 << 50_000])
    ("[1, 'a']", 400, 'list with a number of more digits than can be written')
    """
    try:
        text = repr(value)
    except ValueError:  # such as int's, of more than 4,300 digits
        text = f"{type(value).__name__} with a number of more digits than can be written"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def dotted_table(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a nested table as a flat one, with dotted names.

    >>> dotted_table({"lr": 0.1, "rule": {"name": "krum"}})
    {'lr': 0.1, 'rule.name': 'krum'}
    """
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= dotted_table(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


class ValueObject(BaseModel):
    """Base of everything that is configured: compared by value, shown as the code that builds it.

    Unknown keys are refused with the nearest known one, wrong values with the value and what is allowed.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", strict=False, allow_inf_nan=False, use_attribute_docstrings=True
    )

    def __init__(self, **parameters: Any) -> None:
        """Validate the parameters; a `ParameterError` names every one that is wrong."""
        try:
            super().__init__(**parameters)
        except ValidationError as error:
            raise ParameterError(self._explain(error)) from None

    def __repr_args__(self) -> Any:
        """Show only what differs from the defaults, so that the repr is the code a person would write."""
        fields = type(self).model_fields
        given = super().__repr_args__()
        return [(name, value) for name, value in given if name not in fields or fields[str(name)].default != value]

    def __str__(self) -> str:
        """Return the code that builds the object."""
        return repr(self)

    @classmethod
    def _explain(cls, error: ValidationError) -> str:
        """Return every problem once: a value that fits none of several kinds is told what each of them wants."""
        wanted: dict[str, list[str]] = {}
        got: dict[str, str] = {}
        problems = []
        for detail in error.errors():
            key = ".".join(str(part) for part in detail["loc"] if _is_name(part))
            text = detail["msg"].removeprefix("Value error, ")
            if detail["type"] == "extra_forbidden":
                known = sorted(cls.model_fields)
                problems.append(f"no parameter {key!r}{nearest(key, known)}; known: {', '.join(known) or 'none'}")
            elif key:
                inside = isinstance(detail.get("ctx", {}).get("error"), ParameterError)  # has shown its value already
                wanted.setdefault(key, []).append(text if inside else f"{text[:1].lower()}{text[1:]}")
                got.setdefault(key, "" if inside else f", got {shown(detail['input'])}")
            else:
                problems.append(text)
        for key, texts in wanted.items():
            problems.append(f"{key}: {' or '.join(dict.fromkeys(texts))}{got[key]}")
        return f"{cls.__name__}: " + "; ".join(problems)


def _is_name(part: object) -> bool:
    """Tell a field or an index from what pydantic calls one of several kinds, such as literal['full']."""
    return isinstance(part, int) or str(part).isidentifier()
