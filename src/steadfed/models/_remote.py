"""A model that is known by its arrays only."""

from __future__ import annotations

from typing import Annotated, ClassVar, NoReturn, final

from pydantic import Field
from torch import nn

from steadfed.data._base import Dataset
from steadfed.errors import DataError
from steadfed.models._base import Architecture, Width
from steadfed.models._losses import Loss
from steadfed.models._registry import MODELS


@MODELS.register("remote", offered=False)
@final
class RemoteModel(Architecture):
    """A model of which the server knows the arrays only: what the configuration of a deployment says of it.

    >>> RemoteModel(dim=7_850).dim
    7850
    """

    citation: ClassVar[str] = "the clients' own; written by the server of a deployment, nothing to choose"

    dim: Annotated[Width, Field(examples=[7])]
    """d, how many parameters it has."""
    fingerprint: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """SHA-256 of the names, shapes and dtypes of its arrays."""

    def module(self, dataset: Dataset) -> nn.Module:
        """Refuse: the code of the model is with the clients."""
        self._refuse()

    def loss(self) -> Loss:
        """Refuse: what the clients make small is known to them only."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise DataError(
            f"of this model the server knows the arrays only, {self.dim:,} parameters; its code and its loss are with "
            f"the clients. To simulate the run, name a model that can be built, such as mlp or import"
        )
