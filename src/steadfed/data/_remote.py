"""Data that only the clients of a deployment have."""

from __future__ import annotations

from typing import ClassVar, final

from steadfed.data._base import Dataset, DataSource
from steadfed.data._registry import DATASETS
from steadfed.errors import MissingDataError


@DATASETS.register("remote", offered=False)
@final
class RemoteData(DataSource):
    """Points that only the clients of a deployment have: what the configuration of such a run says of its data.

    The server of a deployment never sees a point, so the run can be shown, audited and compared, but not simulated.

    >>> RemoteData().load()
    Traceback (most recent call last):
        ...
    steadfed.errors.MissingDataError: the points of this run are with its clients, none is here: ...
    """

    citation: ClassVar[str] = "the clients' own; written by the server of a deployment, nothing to choose"
    here: ClassVar[bool] = False

    def load(self) -> Dataset:
        """Refuse: the points are with the clients."""
        raise MissingDataError(
            "the points of this run are with its clients, none is here: it is a deployment, which only its server app "
            "continues; start that again with the same run folder. To have the data described, such as for `steadfed "
            "certify`, give the strategy a `twin`: the configuration of a simulation of the same federation"
        )
