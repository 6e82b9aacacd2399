"""What is written at the end of a run: the model, then the summary, which names it and the last line."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from steadfed._core.durable import replace_file
from steadfed._core.parsing import parse_json
from steadfed.errors import CorruptRunError, ParameterError
from steadfed.server._reading import tensors_of, text_of
from steadfed.server._record import finite_or_none
from steadfed.server._stored import stored_arrays, stored_digest

if TYPE_CHECKING:
    from torch import Tensor

HEAD: Final = "head"
"""The key of a summary under which the hash of the last line stands, which no later line holds."""
MODEL: Final = "model_after"
"""The key of a summary under which the name of the final model stands: see `arrays_digest`."""


def write_model(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write the tensors of a model by name."""
    from steadfed.server._tensors import to_bytes

    replace_file(path, to_bytes(tensors))


def model_digest(path: Path) -> str:
    """Return what the model in a file is called, see `arrays_digest`; does not load torch.

    Raises:
        CorruptRunError: there is none, or it cannot be read.
    """
    try:
        return stored_digest(stored_arrays(tensors_of(path)))
    except CorruptRunError as error:
        raise CorruptRunError(f"{path} is damaged: {error}") from None


def write_summary(path: Path, summary: Mapping[str, Any], head: str, model: Path) -> None:
    """Write a summary, with the hash of the last line and the name of the model, if there is one.

    Raises:
        ParameterError: it holds what is no plain JSON value.
        OSError: it could not be written.
    """
    try:
        plain = {**summary, HEAD: head, **({MODEL: model_digest(model)} if os.path.lexists(model) else {})}
        content = rendered(plain)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"a summary must hold plain JSON values, got {summary!r}: {error}") from None
    replace_file(path, content)


def rendered(summary: Mapping[str, Any]) -> bytes:
    """Return the content of the file of a summary."""
    return (json.dumps(finite_or_none(dict(summary)), indent=2, allow_nan=False) + "\n").encode()


def read_summary(path: Path) -> dict[str, Any] | None:
    """Return what a summary says; None if there is none.

    Raises:
        CorruptRunError: it cannot be read.
    """
    if not os.path.lexists(path):
        return None
    try:
        summary = parse_json(text_of(path))
    except ParameterError as error:
        raise CorruptRunError(
            f"{path} is not JSON: {error}; delete it and resume the run to have it written again"
        ) from None
    if not isinstance(summary, dict):
        raise CorruptRunError(f"{path} must hold a table, got {type(summary).__name__}; delete it and resume the run")
    return summary


def fits(summary: Mapping[str, Any], head: str, model: Path) -> bool:
    """Tell whether a summary was written after this last line, beside this model; those of old versions do not say."""
    if summary.get(HEAD, head) != head:
        return False
    try:
        return MODEL not in summary or summary[MODEL] == model_digest(model)
    except CorruptRunError:
        return False
