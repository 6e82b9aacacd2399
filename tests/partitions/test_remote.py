"""Clients that hold points of their own."""

from __future__ import annotations

import pytest
from tests.partitions.points import labelled

from steadfed.errors import DataError, ParameterError
from steadfed.partitions import PARTITIONS, RemotePartition


def test_nothing_is_dealt_out_to_them() -> None:
    with pytest.raises(DataError, match="the 5 clients of a deployment hold points of their own; labelled is not"):
        RemotePartition(num_clients=5).split(labelled(10, 2), seed=0)


def test_how_many_there_are_must_be_said() -> None:
    with pytest.raises(ParameterError, match="num_clients"):
        PARTITIONS.build("remote")
    with pytest.raises(ParameterError, match="num_clients"):
        PARTITIONS.build("remote", num_clients=0)
