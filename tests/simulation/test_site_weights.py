"""Clients that count by their sizes, in simulations: what is aggregated, written down, checked, planned and shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.simulation.small import classes, config, played, same_bits

from steadfed.aggregators import Mean, Median, Rage
from steadfed.attacks import FixedMembers, SignFlip
from steadfed.certification import plan
from steadfed.errors import ParameterError
from steadfed.partitions import DirichletPartition
from steadfed.reports._sections.overview import overview
from steadfed.runs import Run, read_config
from steadfed.runs._check import check
from steadfed.server import open_run
from steadfed.simulation import Evaluation, Federation

UNEVEN = DirichletPartition(num_clients=7, alpha=0.3)
WEIGHED: dict[str, Any] = {"partition": UNEVEN, "cohort_size": 7, "site_weights": "sizes"}


def test_the_mean_by_sizes_is_that_of_all_points() -> None:
    what = config(**WEIGHED, rule=Mean(), batch_size="full", local_steps=1, rounds=1, dtype="float64")
    states, (record,) = played(what)
    sizes = UNEVEN.split(classes(), what.seed).sizes
    assert record.weights == pytest.approx(tuple(sizes[np.array(record.received)] / sizes.sum()))
    one = config(
        partition=UNEVEN.__class__(num_clients=1, alpha=1.0),
        cohort_size=1,
        rule=Mean(),
        batch_size="full",
        local_steps=1,
        rounds=1,
        dtype="float64",
    )
    assert torch.allclose(states[-1].model, played(one)[0][-1].model, atol=1e-9)
    assert record.error == 0.0


def test_equal_weights_change_no_bit() -> None:
    plain, same = config(rule=Rage(num_byzantine=1)), config(rule=Rage(num_byzantine=1), site_weights=[3.0] * 12)
    assert same_bits(played(plain), played(same))


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_of_a_weighted_round_holds_for_the_weighted_mean(seed: int) -> None:
    liar = int(np.argmin(UNEVEN.split(classes(), seed).sizes))
    what = config(
        **WEIGHED,
        seed=seed,
        rule=Rage(byzantine_weight=0.2),
        byzantine=FixedMembers(clients=(liar,)),
        attack=SignFlip(),
        evaluation=Evaluation(measured_rounds=3),
    )
    for record in played(what)[1]:
        assert record.byzantine_weight == pytest.approx(0.2)
        assert record.honest_error_bound is not None
        assert record.error is not None
        assert record.error <= record.honest_error_bound * (1.0 + 1e-6)


def test_a_liar_that_holds_more_than_may_lie_has_no_bound() -> None:
    liar = int(np.argmax(UNEVEN.split(classes(), 0).sizes))
    more: dict[str, Any] = {"byzantine": FixedMembers(clients=(liar,)), "attack": SignFlip()}
    (record,) = played(config(**WEIGHED, **more, rule=Rage(byzantine_weight=0.05), rounds=1))[1]
    assert record.honest_error_bound is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"site_weights": "sizes", "rule": Median(num_byzantine=1)}, "cannot weigh them; rules that can: Mean"),
        ({"site_weights": [1.0, 2.0]}, "a number for each of the clients 0 to 11"),
        ({"site_weights": {"Aachen": 2.0}}, "a number for each of the clients 0 to 11"),
        ({"site_weights": [0.0] * 12}, "site_weights"),
        ({"site_weights": "samples"}, "site_weights"),
        ({"max_share": 0.3}, "max_share caps site_weights, which are not given"),
        ({"site_weights": [1.0] * 12, "max_share": 0.05}, "max_share must be a share from 0.08333"),
    ],
)  # fmt: skip
def test_weights_that_cannot_be_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        Federation(config(**changes), dataset=classes())


def test_a_table_of_weights_means_what_a_list_means_and_survives_its_file(tmp_path: Path) -> None:
    weights = [float(1 + place % 3) for place in range(12)]
    listed = config(site_weights=weights, max_share=0.3, rule=Rage(byzantine_weight=0.3))
    tabled = config(site_weights={str(i): w for i, w in enumerate(weights)}, max_share=0.3, rule=listed.rule)
    assert same_bits(played(listed), played(tabled))
    for what in (listed, tabled):
        folder = tmp_path / type(what.site_weights).__name__
        Run.start(what, folder, dataset=classes())
        assert read_config(folder / "config.toml").site_weights == what.site_weights


def test_check_plan_and_report_name_whom_the_promise_covers(tmp_path: Path) -> None:
    weights = [517.0, 83.0, 80.0, 80.0, 80.0, 80.0, 80.0]
    what = config(partition=UNEVEN, cohort_size=7, site_weights=weights, rule=Rage(byzantine_weight=0.1), rounds=1)
    covered = "any one site but 0, which holds 51.7 %"
    facts = dict(check(what, dataset=classes()).facts)
    assert facts["weights"].startswith("clients hold 8.0 % to 51.7 % of the weight; sites that hold at most 10.0 %")
    assert facts["weights"].endswith(covered)
    found = plan(what, dataset=classes())
    assert covered in found.reading[0]
    assert "plain mean" in found.outside["site weights"]
    run = Run.start(what, tmp_path / "run", dataset=classes())
    list(run.play())
    table = overview(open_run(tmp_path / "run"))
    assert covered in str(table)
    with pytest.raises(ParameterError, match=r"lets 51\.7.% of the weight of 7 updates be Byzantine"):
        check(what.model_copy(update={"rule": Rage(num_byzantine=1)}), dataset=classes())
