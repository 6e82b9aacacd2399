"""Names of value objects: a class gets its name where it is defined, and is known by it everywhere from then on."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar, cast

from pydantic.fields import FieldInfo

from steadfed._core.importing import check_path, path_of
from steadfed._core.lookup import find, nearest
from steadfed._core.own_code import IMPORT, Imported
from steadfed._core.values import ValueObject
from steadfed.errors import ParameterError, UnknownNameError

Named = TypeVar("Named", bound=ValueObject)
Class = TypeVar("Class", bound=type[ValueObject])


class Registry(Mapping[str, type[Named]], Generic[Named]):
    """The classes of one kind by name, in the order of their names.

    What may be named in a configuration, on the command line and in the documentation is what is registered here:
    the decorator on a class is the only place where its name is written. Unknown names are refused with the nearest
    known one. A wrapper is a class with a field that is called as the kind is: it holds the object inside. It is
    written before what it wraps, with a plus.

    >>> shapes = Registry("shape", ValueObject)
    >>> @shapes.register("circle")
    ... class Circle(ValueObject):
    ...     radius: float = 1.0
    >>> @shapes.register("turned")
    ... class Turned(ValueObject):
    ...     shape: ValueObject
    >>> shapes.build("turned+circle", radius=2.0)
    Turned(shape=Circle(radius=2.0))
    >>> shapes.name(_)
    'turned+circle'
    >>> shapes
    Registry('shape': circle, turned)
    """

    def __init__(self, kind: str, base: type[Named], *, separator: str = "-") -> None:
        """Begin with no class.

        Args:
            kind: what the objects are called in messages, and the field of a wrapper that holds the object inside.
            base: what every class of the kind is derived from.
            separator: what joins the words of a name.
        """
        self.kind = kind
        self.base = base
        self._separator = separator
        self._classes: dict[str, type[Named]] = {}
        self._not_offered: set[str] = set()
        self._imported: type[Imported] | None = None

    def register(self, name: str, *, offered: bool = True) -> Callable[[Class], Class]:
        """Return a decorator that gives a class its name.

        Args:
            name: lower-case letters, digits and hyphens, such as "trimmed-mean".
            offered: False for what only a program writes into a configuration and nobody would choose.

        Raises:
            ParameterError: the name is another class's, or is none, or the class is not of this kind.
        """

        def registered(cls: Class) -> Class:
            self._add(name, cls)
            self._not_offered |= set() if offered else {name}
            return cls

        return registered

    def imports(self, cls: Class) -> Class:
        """Decorate the class of objects that name code of the user's own: a name with a colon is its import path."""
        if not issubclass(cls, Imported):
            raise ParameterError(f"{cls.__name__} cannot name code: it is not derived from Imported")
        self._imported = cls
        return cls

    def _add(self, name: str, cls: type[ValueObject]) -> None:
        if not issubclass(cls, self.base):
            raise ParameterError(f"{cls.__name__} cannot be a {self.kind}: it is not derived from {self.base.__name__}")
        if not re.fullmatch(f"[a-z0-9]+({self._separator}[a-z0-9]+)*", name):
            between = "hyphens" if self._separator == "-" else "underscores"
            raise ParameterError(f"a name has lower-case letters, digits and single {between}, got {name!r}")
        known = self._classes.get(name, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):  # else it is defined anew
            raise ParameterError(f"the {self.kind} {name!r} is {known.__qualname__} already{_place(known)}")
        self._classes = dict(sorted({**self._classes, name: cls}.items()))

    def __getitem__(self, name: str) -> type[Named]:
        """Return the class called `name`, or that of an import path; an `UnknownNameError` names the nearest one."""
        if self._imported is not None and ":" in name:
            return cast("type[Named]", self._imported)
        module, dot, attribute = name.rpartition(".")
        if self._imported is not None and dot and name not in self._classes:
            own = f"one of your own is written 'module:name', did you mean '{module}:{attribute}'?"
            raise UnknownNameError(f"unknown {self.kind} {name!r}: {own}")
        return find(self.kind, name, self._classes)

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)

    def __repr__(self) -> str:
        return f"Registry({self.kind!r}: {', '.join(self)})"

    @property
    def offered(self) -> tuple[str, ...]:
        """The names that a person may choose from."""
        return tuple(name for name in self if name not in self._not_offered)

    def build(self, name: str, **parameters: Any) -> Named:
        """Return the object called `name`; of "wrapper+inner" the inner one gets the parameters, the wrapper none."""
        outer, plus, inner = name.partition("+")
        cls = self[outer]
        if self._imported is not None and cls is self._imported:
            inside = {self.kind: self.build(inner, **parameters)} if plus else parameters
            built = {key: self._built(value) for key, value in inside.items()}
            return cast("Named", self._imported.at(outer, **built))
        if not plus:
            self._check_inside(name, cls, parameters)
            return cls(**{key: self._built(value) for key, value in parameters.items()})
        if not self._wraps(cls):
            wrappers = ", ".join(key for key, each in self.items() if self._wraps(each)) or "none"
            raise ParameterError(f"{outer!r} in {name!r} wraps no other {self.kind}; wrappers: {wrappers}")
        return cls(**{self.kind: self.build(inner, **parameters)})

    def example(self, name: str, **preferred: Any) -> Named:
        """Return an object called `name`, whatever its class asks for.

        Parameters that have no default get the first example of their field, an object inside by its name; the
        preferred ones are given wherever a class has them.
        """
        parameters: dict[str, Any] = {}
        for key, field in self[name].model_fields.items():
            if key in preferred:
                parameters[key] = preferred[key]
            elif field.is_required():
                example = _first_example(name, key, field)
                parameters[key] = self.example(example, **preferred) if key == self.kind else example
        return self.build(name, **parameters)

    def name(self, value: Named) -> str:
        """Return the name under which the class of the object is registered, with those of the objects inside it."""
        inner = value.arguments.get(self.kind) if isinstance(value, Imported) else None
        inner = getattr(value, self.kind) if self._wraps(type(value)) else inner
        return self._own_name(value) + (f"+{self.name(inner)}" if inner is not None else "")

    def to_table(self, value: Named, *, complete: bool = False) -> dict[str, Any]:
        """Return the name and the parameters, named objects inside as tables.

        What is of the user's own has no name and is written as `import`, with its path. Left out are parameters that
        are at their defaults or, in a complete table, only those that are None.
        """
        fields = {name: field.default for name, field in type(value).model_fields.items()}
        given = {key: each for key, each in value if (each is not None if complete else each != fields.get(key))}
        plain = {
            key: self.to_table(each, complete=complete) if isinstance(each, self.base) else each
            for key, each in given.items()
        }
        if isinstance(value, Imported):
            value.check_written()
            del plain["import_path"]
        name = self._own_name(value)
        return {IMPORT if ":" in name else "name": name, **plain}

    def from_table(self, table: Mapping[str, Any]) -> Named:
        """Return the object that a table with a name and parameters describes."""
        key = name_key(table) if self._imported is not None else "name"
        name = table.get(key)
        if not isinstance(name, str):
            article = "an" if self.kind[0] in "aeiou" else "a"
            raise ParameterError(
                f"expected a table with the name of {article} {self.kind}, got the keys {sorted(table)}"
            )
        if key == IMPORT:
            check_path(name, f"the {self.kind}")
        return self.build(name, **{key: value for key, value in table.items() if key not in {"name", IMPORT}})

    def of(self, value: Any, *, written: bool = True) -> Any:
        """Return a function, a class or a name as an object of the kind; one, or whatever else it is, as it is.

        Args:
            value: an object, or what stands for one.
            written: whether it must be possible to write it into a file.

        Raises:
            ParameterError: it cannot be written down, as a lambda or what a notebook defines.
        """
        if isinstance(value, str):
            return self.build(value)
        if isinstance(value, type) and issubclass(value, self.base):
            return value()
        if self._imported is None or isinstance(value, self.base) or not callable(value):
            return value
        what = self._imported.what
        return self._imported.at(path_of(value, what)) if written else self._imported.around(value)

    def _check_inside(self, name: str, cls: type[Named], parameters: Mapping[str, Any]) -> None:
        """Say how an object inside is written, if a wrapper has none or has its bare name."""
        inside = parameters.get(self.kind)
        if self._wraps(cls) and (inside is None or isinstance(inside, str)):
            got = f"{self.kind} = {inside!r}" if inside is not None else "none"
            raise ParameterError(
                f"{name!r} takes another {self.kind} inside, as in '{name}+NAME' or a table {self.kind}.name; got {got}"
            )

    def _own_name(self, value: Named) -> str:
        if isinstance(value, Imported):
            return value.import_path
        for name, cls in self.items():
            if cls is type(value):
                return name
        if self._imported is not None:
            return path_of(type(value), f"the {self.kind}")
        unnamed = type(value).__name__
        raise UnknownNameError(
            f"the {self.kind} {unnamed} has no name{nearest(unnamed, self)}; give it one where it is defined: "
            f'decorate the class with the method `register("a-name")` of the registry of every {self.kind}'
        )

    def _wraps(self, cls: type[ValueObject]) -> bool:
        return self.kind in cls.model_fields

    def _built(self, value: Any) -> Any:
        return self.from_table(value) if isinstance(value, Mapping) else value


def name_key(table: Mapping[str, Any]) -> str:
    """Return the key under which a table says what it describes: `name`, or `import` for what is of the user's own.

    >>> name_key({"name": "krum"}), name_key({"import": "my_rules:CentralRows"})
    ('name', 'import')
    """
    if IMPORT in table and "name" in table:
        raise ParameterError(f"give one of name and {IMPORT}, got {table['name']!r} and {table[IMPORT]!r}")
    return IMPORT if IMPORT in table else "name"


def _place(cls: type[ValueObject]) -> str:
    """Return ", in FILE" for the file in which a class is defined, or the empty string if there is none."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return f", in {file}" if file else ""


def _first_example(name: str, key: str, field: FieldInfo) -> Any:
    if not field.examples:
        raise ParameterError(f"{name}: the field {key!r} has neither a default nor Field(examples=[…])")
    return field.examples[0]
