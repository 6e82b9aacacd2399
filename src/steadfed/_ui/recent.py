"""The last few things that were asked for, kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar, final

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


@final
class Recent(Generic[Key, Value]):
    """The last few things that were asked for; the others are forgotten."""

    def __init__(self, make: Callable[[Key], Value], *, most: int) -> None:
        self._make = make
        self._most = most
        self._kept: OrderedDict[Key, Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Key) -> Value:
        """Return the thing of a key; made if it is not there (any more)."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = self._make(key)
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
            return self._kept[key]
