"""Value objects that name code of the user's own, which is not executed before somebody asks for it."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self, TypeVar

from pydantic import ConfigDict, PrivateAttr, model_validator

from steadfed._core.importing import check_path, import_object, path_of
from steadfed._core.values import ValueObject, shown
from steadfed.errors import ParameterError

Value = TypeVar("Value", bound=ValueObject)
IMPORT = "import"
"""The key of a table that names code, in place of `name`."""


class Imported(ValueObject):
    """What is at an import path, and the arguments it gets: whatever is given besides the fields.

    Making, comparing, showing and writing one executes nothing: `loaded` does.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    what: ClassVar[str]
    """What it is, with its article; said in messages."""

    import_path: str
    """Where it is, "package.module:name"."""
    _given: Any = PrivateAttr(default=None)
    """What is there, if it is known already."""

    @model_validator(mode="before")
    @classmethod
    def _plain_arguments(cls, values: Any) -> Any:
        """Refuse arguments that a file cannot hold; tuples become lists, as they would in a file."""
        if not isinstance(values, Mapping):
            return values
        fields = cls.model_fields
        return {name: value if name in fields else _plain(name, value) for name, value in values.items()}

    @classmethod
    def at(cls, path: str, **parameters: Any) -> Self:
        """Return what names a path; a `ParameterError` says how one is written."""
        check_path(path, cls.what)
        return cls(import_path=path, **parameters)

    @classmethod
    def around(cls, value: Any, **parameters: Any) -> Self:
        """Return the same for an object at hand, of which only what goes into a file must have an import path."""
        try:
            path = path_of(value, cls.what)
        except ParameterError:
            kind = value if inspect.isroutine(value) or isinstance(value, type) else type(value)
            path = f"{kind.__module__}:{kind.__qualname__}"
        made = cls(import_path=path, **parameters)
        made._given = value  # noqa: SLF001  of the same class
        return made

    @property
    def given(self) -> Any:
        """What is at the path, if it is at hand; None if it has not been imported."""
        return self._given

    @property
    def arguments(self) -> dict[str, Any]:
        """What the code is given besides what it is offered."""
        return dict(self.__pydantic_extra__ or {})

    def check_written(self) -> None:
        """Raise `ParameterError` if the path cannot be written down, as nobody would find the code there again."""
        if self._given is not None and ("<" in self.import_path or self.import_path.startswith("__main__:")):
            path_of(self._given, self.what)
        check_path(self.import_path, self.what)

    def found(self) -> Any:
        """Import what is at the path, which executes its module the first time."""
        return self._given if self._given is not None else import_object(self.import_path, self.what)

    @abstractmethod
    def load(self) -> ValueObject:
        """Return the object that the code defines, or this one with the code at hand if it defines a function."""

    def holding(self, found: Any) -> Self:
        """Return the same with the code at hand."""
        copy = self.model_copy()
        copy._given = found  # noqa: SLF001  of the same class
        return copy


def loaded(value: Value) -> Value:
    """Return a value object in which all that names code, at any depth, is what that code makes: it is executed.

    Raises:
        ParameterError: something is not there, fails when it is imported, or does not fit its place.
    """
    inside = {name: each for name, each in value if isinstance(each, ValueObject)}
    changes = {name: made for name, each in inside.items() if (made := loaded(each)) is not each}
    if changes and isinstance(value, Imported):
        value = value.model_copy(update=changes)
    elif changes:
        value = type(value)(**{**dict(value), **changes})
    return value.load() if isinstance(value, Imported) else value  # type: ignore[return-value]


def imports_of(value: ValueObject, where: str = "") -> Iterator[tuple[str, str]]:
    """Yield where in a value object code is named, and its import path; nothing is executed."""
    if isinstance(value, Imported):
        yield where, value.import_path
    for name, each in value:
        if isinstance(each, ValueObject):
            yield from imports_of(each, f"{where}.{name}" if where else name)


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, (bool, int, float, str, ValueObject)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(name, each) for each in value]
    raise ParameterError(f"{name}: an argument is a number, a word, true, false, or a list of such, got {shown(value)}")
