"""Models on the way, kept for good: what a measured round starts from, and what the last one leaves."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steadfed._core.durable import UNFINISHED, replace_file, sync_folder
from steadfed.errors import CorruptRunError

if TYPE_CHECKING:
    from torch import Tensor

_NAME = re.compile(rf"(\d{{6,}})\.safetensors(?:{re.escape(UNFINISHED)})?")
_PARTS = ("model", "buffers")
_SEAL = "sha256"
"""The tensor of 32 bytes that vouches for the others."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Snapshot:
    """The model after some rounds."""

    round: int
    """How many rounds are done: the number of the one that starts from it."""
    model: Tensor
    """x, the parameters in a row."""
    buffers: Tensor
    """The floating-point buffers of the model in a row, such as running means; empty if there are none."""


def write_snapshot(folder: Path, snapshot: Snapshot) -> None:
    """Write a snapshot as a whole; make the folder if there is none. One of the same round is replaced.

    Raises:
        OSError: it could not be written; the others are still there.
    """
    import torch

    from steadfed.server._tensors import to_bytes

    folder.mkdir(exist_ok=True)
    if not any(folder.iterdir()):
        sync_folder(folder.parent)  # whatever is in the folder was written after this
    tensors = {"model": snapshot.model, "buffers": snapshot.buffers}
    seal = torch.frombuffer(bytearray(_digest(tensors)), dtype=torch.uint8)
    replace_file(path_of(folder, snapshot.round), to_bytes({**tensors, _SEAL: seal}))


def read_snapshot(folder: Path, rounds: int) -> Snapshot:
    """Return the snapshot after so many rounds; `CorruptRunError` says what is wrong with it."""
    from steadfed.server._tensors import from_bytes

    path = path_of(folder, rounds)
    try:
        tensors = from_bytes(path.read_bytes())
    except OSError as error:
        raise CorruptRunError(f"cannot be read: {error.strerror}") from None
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if set(shapes) != {*_PARTS, _SEAL} or any(len(shape) != 1 for shape in shapes.values()):
        raise CorruptRunError(f"it must hold the rows {', '.join(_PARTS)} and {_SEAL}, it holds {shapes}")
    model, buffers = (tensors[name] for name in _PARTS)
    if tensors[_SEAL].tolist() != list(_digest({"model": model, "buffers": buffers})):
        raise CorruptRunError("its content does not have the SHA-256 that it was written with")
    return Snapshot(round=rounds, model=model, buffers=buffers)


def numbers(folder: Path) -> list[int]:
    """Return after how many rounds there are snapshots, in ascending order; none if there is no such folder."""
    return sorted(int(path.stem) for path in folder.glob("*.safetensors") if _NAME.fullmatch(path.name))


def drop_beyond(folder: Path, rounds: int) -> None:
    """Delete the snapshots after more rounds than these, and what crashes have left."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        match = _NAME.fullmatch(path.name)
        if match and (int(match[1]) > rounds or path.name.endswith(UNFINISHED)):
            with suppress(FileNotFoundError):
                path.unlink()


def path_of(folder: Path, rounds: int) -> Path:
    """Return the file of a snapshot."""
    return folder / f"{rounds:06d}.safetensors"


def _digest(tensors: Mapping[str, Tensor]) -> bytes:
    from steadfed.server._tensors import to_bytes

    return hashlib.sha256(to_bytes(tensors)).digest()
