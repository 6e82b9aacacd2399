"""Value objects that name code of the user's own, which is not executed before somebody asks for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Self, TypeVar

from pydantic import ConfigDict, PrivateAttr, model_validator

from steadfed._core.calling import Offers, build_own, check_call
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
    base: ClassVar[type[ValueObject]]
    """What classes of this kind are derived from."""
    offered: ClassVar[tuple[str, ...]]
    """What a function may ask for, by the names of its parameters."""

    import_path: str
    """Where it is, "package.module:name"."""
    _given: Any = PrivateAttr(default=None)
    """What is there, if it is known already."""
    _at_hand_only: bool = PrivateAttr(default=False)
    """Whether it was handed over, and may not be found at the path."""

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
        kind = value if inspect.isroutine(value) or isinstance(value, type) else type(value)
        module = getattr(kind, "__module__", None) or "builtins"
        return cls(import_path=f"{module}:{kind.__qualname__}", **parameters).take(value, written=False)

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
        if self._at_hand_only:
            path_of(self._given, self.what)
        check_path(self.import_path, self.what)

    def found(self) -> Any:
        """Import what is at the path, which executes its module the first time."""
        return self._given if self._given is not None else import_object(self.import_path, self.what)

    def load(self) -> ValueObject:
        """Return the object that the code defines, or this one with the code at hand if it defines a function.

        Raises:
            ParameterError: there is no such code, or it can be neither.
        """
        found = self.found()
        if isinstance(found, type) and issubclass(found, self.base):
            return found(**self.parameters_for(found))
        if isinstance(found, self.base):
            if self.arguments:
                raise ParameterError(
                    f"{self.import_path} is an object and takes no {next(iter(self.arguments))!r}; name its class, "
                    f"{type(found).__name__}, to give it parameters"
                )
            return found
        if not callable(found):
            kinds = f"a function of the updates, a class of such, or of {self.base.__name__}"
            raise ParameterError(f"{self.import_path} must be {kinds}, got {type(found).__name__}")
        function, arguments = self.function(0, found)
        check_call(function, dict.fromkeys(self.offered, lambda: None), arguments, self.import_path)
        return self.holding(found)

    def parameters_for(self, cls: type[ValueObject]) -> dict[str, Any]:
        """Return what a class that the code defines is given."""
        del cls
        return self.arguments

    def function(self, num_byzantine: int, found: Any = None) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Return what is called with the rows, and its arguments: a function, or an object that is built for this call.

        Args:
            num_byzantine: what a class is given that asks for it, or for f.
            found: what is at the path, if it is at hand.
        """
        found = self.found() if found is None else found
        if not isinstance(found, type):
            return found, self.arguments
        offers: Offers = {name: lambda: num_byzantine for name in ("num_byzantine", "f")}
        made = build_own(found, offers, self.arguments, self.import_path)
        if not callable(made):
            raise ParameterError(f"objects of {self.import_path} must be callable with the updates: define __call__")
        return made, {}

    def holding(self, found: Any) -> Self:
        """Return the same with the code at hand."""
        return self.model_copy().take(found)

    def take(self, found: Any, *, written: bool = True) -> Self:
        """Keep the code at hand, which is at the path if it is written down, and return this."""
        self._given, self._at_hand_only = found, not written
        return self


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
