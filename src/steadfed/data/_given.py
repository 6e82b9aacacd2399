"""Data that were handed over in Python, remembered by their checksum."""

from __future__ import annotations

from typing import Annotated, ClassVar, final

from pydantic import Field

from steadfed.data._base import Dataset, DataSource
from steadfed.data._registry import DATASETS
from steadfed.errors import MissingDataError


@DATASETS.register("given", offered=False)
@final
class GivenData(DataSource):
    """A data set that was given as an object; a configuration can only remember which one it was."""

    citation: ClassVar[str] = "the user's own"

    title: str = "given"
    """What the data set is called."""
    checksum: Annotated[str, Field(pattern="^[0-9a-f]{64}$", examples=["0" * 64])]
    """SHA-256 of its contents, `Dataset.checksum`."""

    def load(self) -> Dataset:
        """Refuse: the data are not here."""
        raise MissingDataError(
            f"the data set {self.title!r} was given as an object in Python; hand it over again, such as in "
            f"Run.resume(folder, dataset=...)"
        )
