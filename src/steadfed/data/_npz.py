"""Arrays in a .npz file of numpy, read without unpickling anything."""

from __future__ import annotations

import lzma
import math
import zipfile
import zlib
from pathlib import Path
from typing import IO, Annotated, Any, ClassVar, final

from numpy.lib import format as npy
from pydantic import Field

from steadfed._core.recorded import UNREADABLE
from steadfed.data._base import Dataset, DataSource
from steadfed.data._files import is_file, plausible_size
from steadfed.data._places import Location, folder_of
from steadfed.data._registry import DATASETS
from steadfed.data._tensors import from_tensors, with_test_owners
from steadfed.errors import CorruptDataError, MissingDataError

NEEDED = ("features", "labels")
OPTIONAL = ("test_features", "test_labels", "groups", "test_groups")
_UNREADABLE = (
    *UNREADABLE,
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, KeyError),
)
"""What the readers of archives and arrays raise of bytes that are none; RuntimeError asks for a password."""


@DATASETS.register("npz")
@final
class Npz(DataSource):
    """A user's own arrays: `features`, `labels` and, if there are any, `test_features`, `test_labels`, and owners.

    `groups` are the owners of the training points, `test_groups` those of the test points. Arrays are taken as
    `from_tensors` takes them: uint8 features are pixels, other integers tokens; integer labels are classes. Arrays of
    Python objects are refused, for reading them would run code from the file.

    >>> Npz(path="mine.npz")
    Npz(path='mine.npz')
    """

    citation: ClassVar[str] = "the user's own data"

    path: Annotated[Location, Field(examples=["data/ours.npz"])]
    """The .npz file, as numpy.savez or numpy.savez_compressed writes it."""

    def load(self) -> Dataset:
        """Read the arrays."""
        path = folder_of(self.path).absolute()
        if not is_file(path):
            raise MissingDataError(
                f"there is no file {path}; write one with numpy.savez({str(path)!r}, features=…, labels=…)"
            )
        try:
            with zipfile.ZipFile(path) as archive:
                arrays = _arrays(archive, path)
        except CorruptDataError:
            raise
        except _UNREADABLE as error:
            raise CorruptDataError(f"{path} cannot be read as a .npz file of plain arrays: {error}") from error
        owners = arrays.pop("test_groups", None)
        dataset = from_tensors(**arrays, name=path.stem)
        return dataset if owners is None else with_test_owners(dataset, owners)


def _arrays(archive: zipfile.ZipFile, path: Path) -> dict[str, Any]:
    present = {name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")}
    if not present.issuperset(NEEDED):
        raise CorruptDataError(
            f"expected arrays called {', '.join(NEEDED)} in {path}, got {', '.join(sorted(present)) or 'none'}"
        )
    arrays, left = {}, plausible_size(path)
    for name in (*NEEDED, *(each for each in OPTIONAL if each in present)):
        with archive.open(f"{name}.npy") as stream:
            left -= _checked_size(stream, archive.getinfo(f"{name}.npy").file_size, f"{path}: {name}")
        if left < 0:
            raise CorruptDataError(f"{path}: its arrays are more than {plausible_size(path):,} bytes unpacked")
        with archive.open(f"{name}.npy") as stream:
            arrays[name] = npy.read_array(stream, allow_pickle=False)
    return arrays


def _checked_size(stream: IO[bytes], size: int, what: str) -> int:
    """Return the bytes of an array; refuse one whose header announces others than there are, before room is made."""
    version = npy.read_magic(stream)
    header = npy.read_array_header_1_0(stream) if version == (1, 0) else npy.read_array_header_2_0(stream)
    shape, _, dtype = header
    expected = stream.tell() + math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and expected != size:
        raise CorruptDataError(f"{what}: its header announces {expected:,} bytes, got {size:,}")
    return size
