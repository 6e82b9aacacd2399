"""Tiny Shakespeare: the next character, by the speaker of the lines."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from steadfed._core.values import whole_number
from steadfed.data._base import Dataset, DataSource
from steadfed.data._files import DataFile
from steadfed.data._places import FileSet, Location, read_files
from steadfed.data._registry import DATASETS
from steadfed.errors import CorruptDataError, DataError

Tokens = NDArray[np.int64]

SHAKESPEARE_FILES = FileSet(
    name="tiny-shakespeare",
    files=(
        DataFile(
            name="input.txt",
            size=1115394,
            sha256="86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
            url="https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
        ),
    ),
    folders=("tinyshakespeare", "tiny-shakespeare", "tiny_shakespeare", "shakespeare"),
)


@DATASETS.register("tiny-shakespeare")
@final
class TinyShakespeare(DataSource):
    """Lines of Shakespeare by speaker: 1,115,394 characters, 65 symbols, 303 speakers, 141 of 1,000 characters or more.

    The text is speeches with an empty line between them, each under a line "NAME:"; names that differ in capitals only
    are one speaker. The first nine tenths of what a speaker says, cut into sequences that do not overlap, are training
    points of that speaker; the last tenth is for tests. A point is `sequence_length` tokens, its labels are the tokens
    that come next. A token is the place of a character among all characters of the text in their order.

    Speakers of less than one sequence to train on have no points and are left out.

    >>> TinyShakespeare(sequence_length=40)
    TinyShakespeare(sequence_length=40)
    """

    citation: ClassVar[str] = "Karpathy 2015 (char-rnn, tiny Shakespeare); public domain"
    files: ClassVar[tuple[FileSet, ...]] = (SHAKESPEARE_FILES,)

    path: Location | None = None
    """The text or its folder; if left out, the usual places and then a download."""
    sequence_length: Annotated[int, Field(ge=1), BeforeValidator(whole_number)] = 80
    """Tokens of a point."""
    min_characters: Annotated[int, Field(ge=0), BeforeValidator(whole_number)] = 1000
    """How much a speaker must say to be a client, line breaks not counted."""

    def load(self) -> Dataset:
        """Read the text."""
        (file,) = SHAKESPEARE_FILES.files
        text = _decode(read_files(SHAKESPEARE_FILES, self.path)[file.name], file.name)
        symbols = sorted(set(text))
        place = {symbol: index for index, symbol in enumerate(symbols)}
        speakers, parts, test_parts = [], [], []
        for speaker, lines in speeches(text, file.name).items():
            tokens = np.array([place[symbol] for symbol in lines], dtype=np.int64)
            end = len(tokens) - len(tokens) // 10
            if len(lines) - lines.count("\n") >= self.min_characters and end > self.sequence_length:
                speakers.append(speaker)
                parts.append(_sequences(tokens[:end], self.sequence_length))
                test_parts.append(_sequences(tokens[end:], self.sequence_length))
        if not speakers:
            raise DataError(
                f"tiny-shakespeare: nobody says {self.min_characters} characters and one sequence of them; ask for less"
            )
        points, test_points = (torch.from_numpy(np.concatenate(each)) for each in (parts, test_parts))
        return Dataset(
            name="tiny-shakespeare",
            features=points[:, :-1].contiguous(),
            labels=points[:, 1:].contiguous(),
            test_features=test_points[:, :-1].contiguous(),
            test_labels=test_points[:, 1:].contiguous(),
            num_classes=len(symbols),
            groups=np.repeat(np.arange(len(parts)), [len(part) for part in parts]),
            group_names=tuple(speakers),
            test_groups=np.repeat(np.arange(len(test_parts)), [len(part) for part in test_parts]),
        )


def speeches(text: str, name: str) -> dict[str, str]:
    r"""Return all that each speaker says, speeches separated by a line break, in the order of appearance.

    >>> speeches("Nurse:\nGo.\n\nROMEO:\nStay.\n\nNURSE:\nNo.\n", "play")
    {'NURSE': 'Go.\nNo.', 'ROMEO': 'Stay.'}
    """
    said: dict[str, list[str]] = {}
    for block in re.split(r"\n{2,}", text.strip("\n")):
        speaker, _, lines = block.partition("\n")
        if not speaker.endswith(":"):
            raise CorruptDataError(f"{name}: expected speeches under lines 'NAME:', got {speaker[:40]!r}")
        said.setdefault(speaker[:-1].upper(), []).append(lines)
    return {speaker: "\n".join(parts) for speaker, parts in said.items()}


def _sequences(tokens: Tokens, length: int) -> Tokens:
    """Return rows of `length` tokens and the one that comes next; only that one is also the first of the next row."""
    count = max(0, (len(tokens) - 1) // length)
    rows: Tokens = tokens[np.arange(count)[:, None] * length + np.arange(length + 1)]
    return rows


def _decode(content: bytes, name: str) -> str:
    try:
        return content.decode("ascii")
    except UnicodeDecodeError as error:
        raise CorruptDataError(f"{name}: expected plain ASCII text; {error}") from error
