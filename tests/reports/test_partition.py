"""Whose data a report shows, where there is no room for everybody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.reports.made import folder, four

from steadfed.attacks import FixedMembers
from steadfed.data import DATASETS
from steadfed.partitions import IidPartition
from steadfed.reports._sections.partition import partition
from steadfed.reports._thinning import PanelLimits
from steadfed.reports.panels import Bars, Table
from steadfed.server._history import RunHistory


def history(path: Path, **changes: Any) -> RunHistory:
    """Return a run of the digits at hand with 40 clients, of whom four are asked; 3 and three others lie."""
    liars = FixedMembers(clients=(3, 21, 30, 39))
    folder(path, [four(0), four(1)], **({"partition": IidPartition(num_clients=40), "byzantine": liars} | changes))
    config = path / "config.toml"
    checksum = DATASETS.build("digits").load().checksum
    config.write_text(config.read_text(encoding="utf-8").replace("0" * 64, checksum), encoding="utf-8")
    return RunHistory(path)


def bars(histories: list[RunHistory], most: int, place: int = 0) -> Bars:
    found = partition(histories, PanelLimits(bars=most)).panels[place]
    assert isinstance(found, Bars)
    return found


@pytest.mark.parametrize(
    ("most", "numbers"), [(2, (3, 21)), (6, (0, 1, 3, 21, 30, 39)), (9, (0, 1, 2, 3, 4, 5, 21, 30, 39))]
)
def test_liars_come_first_those_never_asked_among_them(tmp_path: Path, most: int, numbers: tuple[int, ...]) -> None:
    found = bars([history(tmp_path / "run")], most)
    assert found.categories == tuple(f"client {number}" for number in numbers)
    assert {found.categories[place] for place in found.flagged} <= {"client 3", "client 21", "client 30", "client 39"}
    assert f"Shown are {most} of 40 clients: Byzantine ones first" in found.caption


def test_runs_with_other_liars_have_their_own_marks(tmp_path: Path) -> None:
    histories = [history(tmp_path / "one"), history(tmp_path / "other", byzantine=FixedMembers(clients=(7,)))]
    assert [bars(histories, 40, place).flagged for place in range(2)] == [(3, 21, 30, 39), (3, 7)]
    assert [type(panel) for panel in partition([histories[0], histories[0]]).panels] == [Bars, Table, Table]
