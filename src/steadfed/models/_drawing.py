"""Torch's own generator, of which a process has one: lent to one who draws at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from steadfed._core.rng import stream

_lock = threading.RLock()


@contextmanager
def drawing_from(seed: int, *names: str | int) -> Iterator[None]:
    """Let torch's generator draw from a named stream while inside, and put it back as it was.

    Modules draw their weights, and dropout what it drops, from the one generator of the process; other threads that
    want to use it in this way wait, so that each gets the numbers of its own stream.

    >>> with drawing_from(0, "example", 1):
    ...     one = torch.rand(2)
    >>> with drawing_from(0, "example", 1):
    ...     print(torch.equal(torch.rand(2), one))
    True
    """
    with _lock:
        before = torch.default_generator.get_state()
        torch.default_generator.manual_seed(int(stream(seed, *names).integers(2**63)))
        try:
            yield
        finally:
            torch.default_generator.set_state(before)


def _unlock() -> None:
    """Begin with a lock of one's own: who held it in the parent does not exist in a forked process."""
    global _lock  # noqa: PLW0603  there is one generator, hence one lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)
