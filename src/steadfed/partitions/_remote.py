"""Clients that hold points of their own."""

from __future__ import annotations

from typing import Annotated, ClassVar, final

from pydantic import Field

from steadfed.data._base import Dataset
from steadfed.errors import DataError
from steadfed.partitions._base import NumClients, Partition, Shares
from steadfed.partitions._registry import PARTITIONS


@PARTITIONS.register("remote", offered=False)
@final
class RemotePartition(Partition):
    """The clients of a deployment, each with points of its own: what the configuration of such a run says of them.

    >>> RemotePartition(num_clients=50).num_clients
    50
    """

    citation: ClassVar[str] = "the clients' own; written by the server of a deployment, nothing to choose"

    num_clients: Annotated[NumClients, Field(examples=[3])]
    """R, how many clients there are."""

    def split(self, dataset: Dataset, seed: int) -> Shares:
        """Refuse: who holds which points is known to the clients only."""
        raise DataError(
            f"the {self.num_clients} clients of a deployment hold points of their own; {dataset.name} is not dealt out "
            f"to them. To simulate the run, name a partition that can be, such as iid"
        )
