"""What says whether the folder of a run is what its server wrote: a signed run, changed in any way."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fuzz.folders import Scratch
from tests.fuzz.harness import Choices, Harness, Reader, promise, sized

from steadfed.errors import CorruptRunError, ParameterError

_IGNORED = frozenset({"lock"})
"""Files that say nothing of the run."""
_NEEDED = frozenset({"config.toml", "rounds.jsonl", "signatures.jsonl"})
"""What may not be gone; an old checkpoint may, and a run without a summary is one that goes on."""


def _signed_run() -> tuple[Path, Any]:
    """Return the folder of a run and the public key that it is signed with."""
    from tests.histories import KEY, signed_run

    folder = signed_run(Scratch().path / "run")
    return folder.path, KEY.public


def _read_histories() -> Reader:
    from steadfed.server._verification import verify_run

    whole, key = _signed_run()
    names = sorted(str(path.relative_to(whole)) for path in whole.rglob("*") if path.is_file())
    names = [name for name in names if name not in _IGNORED]
    scratch = Scratch()

    def read(data: bytes) -> None:
        choices = Choices(data)
        place = scratch.path / "run"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(whole, place)
        for _ in range(choices.below(4)):
            _change(choices, place, names)
        same = all((place / name).is_file() and (place / name).read_bytes() == _bytes(whole, name) for name in names)
        found = verify_run(place, key)
        proved = all(each.outcome.name == "PROVED" for each in found.findings)
        promise(proved == same, "what was changed is proved" if proved else "what nobody changed is not proved")

    return read


def _change(choices: Choices, place: Path, names: list[str]) -> None:
    """Change one file: bytes in it, its end, all of it, or whether it is there."""
    path = place / choices.pick(names)
    if not path.is_file():
        return
    content, kind = path.read_bytes(), choices.below(5)
    at = int.from_bytes(choices.take(3), "little") % (len(content) + 1)
    new = choices.sized()
    if kind == 0:
        content = content[:at] + new + content[at + len(new) :]
    elif kind == 1:
        content = content[:at] + new + content[at:]
    elif kind == 2:
        content = content[:at]
    elif kind == 3:
        content = new
    elif path.name in _NEEDED:
        path.unlink()
        return
    path.write_bytes(content)


def _bytes(whole: Path, name: str) -> bytes:
    return (whole / name).read_bytes()


def _changes() -> Iterator[bytes]:
    yield b""
    for name in range(10):
        for kind in range(5):
            yield bytes([1, name, kind, 40, 0, 0]) + sized(b"7")


HISTORIES = (
    Harness(
        name="history",
        reader=_read_histories,
        seeds=_changes,
        refusals=(CorruptRunError, ParameterError),
        words=('"previous":"', '"sig":"', '"keyid":"', '"seal":"', "\n"),
        longest=512,
    ),
)
