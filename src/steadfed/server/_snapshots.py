"""Models on the way, kept for good: what a measured round starts from, and what the last one leaves."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steadfed._core.durable import UNFINISHED, check_own_folder, replace_file, sync_folder
from steadfed.errors import CorruptRunError
from steadfed.server._reading import tensors_of
from steadfed.server._stored import StoredArray, stored_arrays, stored_digest

if TYPE_CHECKING:
    from torch import Tensor

_NAME = re.compile(rf"(\d{{6,}})\.safetensors(?:{re.escape(UNFINISHED)})?")
_PARTS = ("model", "buffers")
_ORIGIN = "origin"
"""The tensor of 40 bytes that says of which run the model is, by the SHA-256 of its config.toml, and after how many
rounds; snapshots of old versions have none."""
_SEAL = "sha256"
"""The tensor of 32 bytes that vouches for the others."""
_CHANGED = "its content does not have the SHA-256 that it was written with"


@dataclass(frozen=True, kw_only=True, eq=False)
class Snapshot:
    """The model after some rounds."""

    round: int
    """How many rounds are done: the number of the one that starts from it."""
    model: Tensor
    """x, the parameters in a row."""
    buffers: Tensor
    """The floating-point buffers of the model in a row, such as running means; empty if there are none."""


def write_snapshot(folder: Path, snapshot: Snapshot, config: str) -> None:
    """Write a snapshot as a whole; make the folder if there is none. One of the same round is replaced.

    Args:
        folder: where it goes.
        snapshot: the model.
        config: the SHA-256 of the run's config.toml.

    Raises:
        OSError: it could not be written; the others are still there.
    """
    from steadfed.server._tensors import to_bytes

    check_own_folder(folder)
    folder.mkdir(exist_ok=True)
    if not any(folder.iterdir()):
        sync_folder(folder.parent)  # whatever is in the folder was written after this
    origin = _as_tensor(_origin(config, snapshot.round))
    tensors = {"model": snapshot.model, "buffers": snapshot.buffers, _ORIGIN: origin}
    seal = _as_tensor(_seal(stored_arrays(to_bytes(tensors))))
    replace_file(path_of(folder, snapshot.round), to_bytes({**tensors, _SEAL: seal}))


def read_snapshot(folder: Path, rounds: int, config: str) -> Snapshot:
    """Return the snapshot after so many rounds of the run with this configuration, by its SHA-256.

    Raises:
        CorruptRunError: it is damaged, or of another run or round; the message says what is wrong with it.
    """
    from steadfed.server._tensors import from_bytes, to_bytes

    content, sealed = check_snapshot(folder, rounds, config)
    tensors = from_bytes(content)
    model, buffers = (tensors[name] for name in _PARTS)
    if not sealed:
        seal = hashlib.sha256(to_bytes({"model": model, "buffers": buffers})).digest()
        if tensors[_SEAL].tolist() != list(seal):
            raise CorruptRunError(_CHANGED)
    return Snapshot(round=rounds, model=model, buffers=buffers)


def check_snapshot(folder: Path, rounds: int, config: str) -> tuple[bytes, bool]:
    """Return the bytes of a snapshot, and whether they were compared with their hash; does not load torch.

    What old versions wrote is only looked at: its hash is over a file that torch writes.

    Raises:
        CorruptRunError: it is damaged, or of another run or round; the message says what is wrong with it.
    """
    try:
        check_own_folder(folder)
    except OSError as error:
        raise CorruptRunError(f"cannot be read: {error.strerror}") from None
    content = tensors_of(path_of(folder, rounds))
    arrays = stored_arrays(content)
    shapes = {name: tuple(each.shape) for name, each in arrays.items()}
    if set(shapes) - {_ORIGIN} != {*_PARTS, _SEAL} or any(len(shape) != 1 for shape in shapes.values()):
        raise CorruptRunError(f"it must hold the rows {', '.join(_PARTS)} and {_SEAL}, it holds {shapes}")
    if _ORIGIN not in arrays:
        return content, False
    seal = arrays.pop(_SEAL)
    if (seal.dtype, seal.numbers) != ("uint8", _seal(arrays)):
        raise CorruptRunError(_CHANGED)
    if arrays[_ORIGIN].numbers != _origin(config, rounds):
        raise CorruptRunError("it belongs to another run, or to another round of this one")
    return content, True


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


def _seal(arrays: Mapping[str, StoredArray]) -> bytes:
    return bytes.fromhex(stored_digest(arrays))


def _origin(config: str, rounds: int) -> bytes:
    return bytes.fromhex(config) + rounds.to_bytes(8, "big")


def _as_tensor(content: bytes) -> Tensor:
    import torch

    return torch.frombuffer(bytearray(content), dtype=torch.uint8)
