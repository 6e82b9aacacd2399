"""Points that only clients have."""

from __future__ import annotations

import pytest

from steadfed.data import RemoteData
from steadfed.errors import MissingDataError
from steadfed.runs._check import check
from steadfed.simulation import RunConfig


def test_they_are_not_here_and_the_message_says_what_can_be_done() -> None:
    with pytest.raises(MissingDataError, match=r"with its clients.*start that again.*give the strategy a `twin`"):
        RemoteData().load()


def test_a_configuration_with_them_cannot_be_simulated() -> None:
    with pytest.raises(MissingDataError, match="with its clients"):
        check(RunConfig(data=RemoteData()))
