"""Value objects: small, frozen, keyword-only, validated; the object IS its configuration."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from holdfast.errors import ParameterError, nearest


class ValueObject(BaseModel):
    """Base of everything that is configured: compared by value, shown as the code that builds it.

    Unknown keys are refused with the nearest known one, wrong values with the value and what is allowed.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", strict=False, allow_inf_nan=False)

    def __init__(self, **parameters: Any) -> None:
        """Validate the parameters; a `ParameterError` names every one that is wrong."""
        try:
            super().__init__(**parameters)
        except ValidationError as error:
            raise ParameterError(self._explain(error)) from None

    def __repr_args__(self) -> Any:
        """Show only what differs from the defaults, so that the repr is the code a person would write."""
        fields = type(self).model_fields
        return [(name, value) for name, value in super().__repr_args__() if fields[str(name)].default != value]

    def __str__(self) -> str:
        """Return the code that builds the object."""
        return repr(self)

    @classmethod
    def _explain(cls, error: ValidationError) -> str:
        problems = []
        for detail in error.errors():
            key = ".".join(str(part) for part in detail["loc"])
            if detail["type"] == "extra_forbidden":
                known = sorted(cls.model_fields)
                problems.append(f"no parameter {key!r}{nearest(key, known)}; known: {', '.join(known) or 'none'}")
            elif key:
                problems.append(f"{key}: {detail['msg'].lower()}, got {detail['input']!r}")
            else:
                problems.append(detail["msg"].removeprefix("Value error, "))
        return f"{cls.__name__}: " + "; ".join(problems)
