"""Where the files of a data set are looked for, and what is said when they are nowhere.

In this order: an explicit path; `$STEADFED_DATA`; the folder of a Debian package; the roots that people give to
torchvision (./data and ~/data); the cache (`$XDG_CACHE_HOME/steadfed`). Below a root, the folder itself, sub-folders
with the usual names of the set, and torchvision's `<ClassName>/raw`. A file with the wrong content is passed over, for
MNIST and Fashion-MNIST call their files alike; it is reported if no right one is found.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from steadfed.data._download import download
from steadfed.data._files import Archive, DataFile, is_file, read_archive, read_file
from steadfed.errors import CorruptDataError, MissingDataError

DATA_ROOT = "STEADFED_DATA"
"""The environment variable that names the folder with a user's data sets."""


def folder_of(path: str) -> Path:
    """Return the path that a user wrote, with ~ for the home folder of somebody.

    Raises:
        MissingDataError: nobody is called so.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise MissingDataError(f"there is no folder {path!r}: {error}") from None


def plain_path(value: Any) -> Any:
    """Return a path object as a string, so that a source is made of plain values only."""
    return os.fspath(value) if isinstance(value, os.PathLike) else value


Location = Annotated[str, Field(min_length=1), BeforeValidator(plain_path)]
"""A path, kept as a string."""


@dataclass(frozen=True, kw_only=True)
class FileSet:
    """The files of a data set, and where users have them."""

    name: str
    files: tuple[DataFile, ...]
    folders: tuple[str, ...]
    """Sub-folders of a root in which the files may lie."""
    system_folders: tuple[str, ...] = ()
    """Folders of packages of the operating system."""
    commands: tuple[str, ...] = ()
    """Commands that install the files."""
    archive: Archive | None = None
    """A packed folder that holds all files."""
    refused: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Other forms of the set, and why they are not read."""


def read_files(wanted: FileSet, path: str | None = None) -> dict[str, bytes]:
    """Return the checked, unpacked content of each file of the set by its name; what is nowhere is downloaded.

    Args:
        wanted: The files.
        path: The folder that holds them (or the file, if it is one), and then the only place that is looked at.

    Raises:
        MissingDataError: the files are nowhere; says where was looked and what gets them.
        CorruptDataError: the only files of these names have another content.
    """
    search = _Search(wanted)
    if search.look_everywhere(path) is None and path is None:
        search.download()
    if search.missing:
        search.give_up(_roots(wanted, path))
    return search.found


def find_folder(wanted: FileSet, path: str | None = None) -> Path | None:
    """Return the folder at which the search for the files ends, their content checked; None if some are nowhere.

    Nothing is downloaded.
    """
    return _Search(wanted).look_everywhere(path)


def places(wanted: FileSet, path: str | None = None) -> list[Path]:
    """Return the folders in which the files of a set are looked for, first come first served."""
    return [root / folder for root in _roots(wanted, path) for folder in ("", *wanted.folders)]


def _roots(wanted: FileSet, path: str | None) -> list[Path]:
    """Return the folders below which the sub-folders of the set are looked for."""
    if path is not None:
        return [folder_of(path)]
    own = os.environ.get(DATA_ROOT)
    roots = (*((own,) if own else ()), *wanted.system_folders, "data", "~/data", cache_folder(wanted.name))
    return [folder_of(str(root)) for root in roots]


def cache_folder(name: str) -> Path:
    """Return the folder in which downloads of a data set are kept."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return folder_of(cache) / "steadfed" / name


class _Search:
    """One search: what was found, what had the wrong content, why the download failed."""

    def __init__(self, wanted: FileSet) -> None:
        self.found: dict[str, bytes] = {}
        self._wanted = wanted
        self._wrong: list[str] = []
        self._refused: list[str] = []
        self._failure = ""

    @property
    def missing(self) -> list[DataFile]:
        """The files that are not found yet."""
        return [file for file in self._wanted.files if file.name not in self.found]

    def look_everywhere(self, path: str | None) -> Path | None:
        """Read what is missing from one place after the other; return the place after which nothing is missing."""
        for place in places(self._wanted, path):
            self.look_at(place)
            if not self.missing:
                return place
        return None

    def look_at(self, place: Path) -> None:
        """Read what is missing from a folder, or from a place that is itself the file or the archive."""
        for file in self.missing:
            single = [place] if len(self._wanted.files) == 1 else []
            for path in (*single, place / file.name, place / f"{file.name}.gz"):
                if file.name not in self.found and is_file(path):
                    self._read(path, file)
        archive = self._wanted.archive
        for path in (place, place / archive.name) if archive and self.missing else ():
            if is_file(path):
                self._read_archive(path)
        self._refused += [f"{place / name}: {why}" for name, why in self._wanted.refused.items() if _is(place, name)]

    def download(self) -> None:
        """Download what is missing into the cache; the first failure ends it."""
        folder = cache_folder(self._wanted.name)
        archive = self._wanted.archive
        try:
            if archive:
                download(archive.url, folder / archive.name, sha256=archive.sha256)
            for file in () if archive else self.missing:
                download(file.url, folder / file.name, sha256=file.sha256, unpacked_size=file.size)
        except MissingDataError as error:
            self._failure = str(error)
        else:
            self.look_at(folder)

    def give_up(self, roots: list[Path]) -> None:
        """Raise the error that says what is missing or wrong, and what can be done."""
        names = ", ".join(file.name for file in self.missing)
        lines = [f"{self._wanted.name}: no usable {names} (packed or not)"]
        lines += [f"  wrong: {text}" for text in self._wrong]
        lines += [f"  not used: {text}" for text in self._refused]
        lines += [f"looked in, and there in {', '.join(self._wanted.folders)}:"]
        lines += [f"  {root}{'' if _exists(root) else ' (does not exist)'}" for root in roots]
        if self._failure:
            lines += [f"download failed: {self._failure}"]
        lines += ["get it with:", *(f"  {command}" for command in self._commands())]
        lines += ["or say where it is:", f"  export {DATA_ROOT}=/folder/with/{self._wanted.folders[0]}"]
        raise (CorruptDataError if self._wrong else MissingDataError)("\n".join(lines))

    def _read(self, path: Path, file: DataFile) -> None:
        try:
            self.found[file.name] = read_file(path, file)
        except CorruptDataError as error:
            self._wrong.append(str(error))

    def _read_archive(self, path: Path) -> None:
        try:
            self.found |= read_archive(path, self.missing)
        except CorruptDataError as error:
            self._wrong.append(str(error))

    def _commands(self) -> list[str]:
        folder = cache_folder(self._wanted.name)
        archive = self._wanted.archive
        urls = [archive.url] if archive else [file.url for file in self.missing]
        targets = [shlex.quote(str(folder / url.rpartition("/")[2])) for url in urls]
        curls = [f"curl -L --create-dirs -o {target} {url}" for target, url in zip(targets, urls, strict=True)]
        return [*self._wanted.commands, *curls]


def _is(place: Path, name: str) -> bool:
    return _exists(place / name) or (place.name == name and _exists(place))


def _exists(path: Path) -> bool:
    """Return whether the path exists as far as this user may know."""
    try:
        return path.exists()
    except OSError:
        return False
