"""Names of value objects: one literal table per kind, wrappers written with a plus, tables of plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from holdfast.errors import ParameterError, find
from holdfast.values import ValueObject

Named = TypeVar("Named", bound=ValueObject)


@dataclass(frozen=True)
class Names(Generic[Named]):
    """The classes of one kind by name; unknown names are refused with the nearest known one.

    A wrapper is a class with a field that is called as the kind is: it holds the object inside. It is written before
    what it wraps, with a plus.

    >>> class Circle(ValueObject):
    ...     radius: float = 1.0
    >>> class Turned(ValueObject):
    ...     shape: ValueObject
    >>> names = Names("shape", {"circle": Circle, "turned": Turned})
    >>> names.build("turned+circle", radius=2.0)
    Turned(shape=Circle(radius=2.0))
    >>> names.name(_)
    'turned+circle'
    """

    kind: str
    """What the objects are called in messages, and the field of a wrapper that holds the object inside."""
    classes: Mapping[str, type[Named]]

    def build(self, name: str, **parameters: Any) -> Named:
        """Return the object called `name`; of "wrapper+inner" the inner one gets the parameters, the wrapper none."""
        outer, plus, inner = name.partition("+")
        cls = find(self.kind, outer, self.classes)
        if not plus:
            self._check_inside(name, cls, parameters)
            return cls(**{key: self._built(value) for key, value in parameters.items()})
        if not self._wraps(cls):
            wrappers = ", ".join(key for key, each in self.classes.items() if self._wraps(each)) or "none"
            raise ParameterError(f"{outer!r} in {name!r} wraps no other {self.kind}; wrappers: {wrappers}")
        return cls(**{self.kind: self.build(inner, **parameters)})

    def name(self, value: Named) -> str:
        """Return the name under which the class of the object is registered, with those of the objects inside it."""
        inner = getattr(value, self.kind) if self._wraps(type(value)) else None
        return self._own_name(value) + (f"+{self.name(inner)}" if inner is not None else "")

    def to_table(self, value: Named, *, complete: bool = False) -> dict[str, Any]:
        """Return the name and the parameters, named objects inside as tables.

        Left out are parameters that are at their defaults or, in a complete table, only those that are None.
        """
        fields = type(value).model_fields
        given = {key: each for key, each in value if (each is not None if complete else each != fields[key].default)}
        plain = {
            key: self.to_table(each, complete=complete) if self._knows(each) else each for key, each in given.items()
        }
        return {"name": self._own_name(value), **plain}

    def from_table(self, table: Mapping[str, Any]) -> Named:
        """Return the object that a table with a name and parameters describes."""
        name = table.get("name")
        if not isinstance(name, str):
            article = "an" if self.kind[0] in "aeiou" else "a"
            raise ParameterError(
                f"expected a table with the name of {article} {self.kind}, got the keys {sorted(table)}"
            )
        return self.build(name, **{key: value for key, value in table.items() if key != "name"})

    def _check_inside(self, name: str, cls: type[Named], parameters: Mapping[str, Any]) -> None:
        """Say how an object inside is written, if a wrapper has none or has its bare name."""
        inside = parameters.get(self.kind)
        if self._wraps(cls) and (inside is None or isinstance(inside, str)):
            got = f"{self.kind} = {inside!r}" if inside is not None else "none"
            raise ParameterError(
                f"{name!r} takes another {self.kind} inside, as in '{name}+NAME' or a table {self.kind}.name; got {got}"
            )

    def _own_name(self, value: Named) -> str:
        return find(self.kind, type(value).__name__, {cls.__name__: name for name, cls in self.classes.items()})

    def _wraps(self, cls: type[ValueObject]) -> bool:
        return self.kind in cls.model_fields

    def _knows(self, value: Any) -> bool:
        return type(value) in self.classes.values()

    def _built(self, value: Any) -> Any:
        return self.from_table(value) if isinstance(value, Mapping) else value
