"""What is measured of honest rows: against covariances written out, and against the error that was made."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.simulation.small import bits, classes, config, numbers, played
from torch import Tensor

from steadfed._core.rng import stream
from steadfed.aggregators import Mean, Rage
from steadfed.attacks import ALittleIsEnough, FixedMembers, FractionMembers, Honest, SignFlip
from steadfed.models import Quadratic
from steadfed.partitions import IidPartition
from steadfed.simulation import Evaluation, Federation, _federation as federation
from steadfed.simulation._cohorts import ListedCohorts
from steadfed.simulation._measuring import honest_error_bound, honest_figures, is_measured

ALL = Evaluation(measured_rounds=1_000)


def covariance(rows: Tensor) -> NDArray[np.float64]:
    centred = rows.double().numpy() - rows.double().numpy().mean(axis=0)
    return np.asarray(centred.T @ centred / len(rows))


def drawn(num_rows: int, dim: int, offset: float = 0.0) -> Tensor:
    return torch.from_numpy(offset + stream(3, "rows", num_rows, dim).standard_normal((num_rows, dim)))


@pytest.mark.parametrize("rounds", [1, 2, 7, 10, 60])
@pytest.mark.parametrize("number", [0, 1, 2, 3, 7, 9, 10, 61])
def test_measured_rounds_are_evenly_spread_and_begin_with_the_first(rounds: int, number: int) -> None:
    found = [each for each in range(rounds) if is_measured(each, rounds, number)]
    chosen = min(number, rounds)
    assert found == [-(-i * rounds // chosen) for i in range(chosen)]


@pytest.mark.parametrize("shape", [(3, 8), (8, 3)])
@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e30])
@pytest.mark.parametrize("who", [slice(1, 2), slice(None)])
def test_rows_that_diverged_have_no_spread(shape: tuple[int, int], bad: float, who: slice) -> None:
    rows = drawn(*shape).float()
    rows[who, -1] = bad
    assert honest_figures(rows, None) == {}


def test_no_rows_have_no_spread() -> None:
    assert honest_figures(torch.empty(0, 4), None) == {}


def attacked(**changes: Any) -> dict[str, Any]:
    return {
        "rounds": 4,
        "cohort_size": 10,
        "byzantine": FixedMembers(clients=(0, 1)),
        "attack": ALittleIsEnough(z=1.5),
        "evaluation": ALL,
        **changes,
    }


def test_what_is_recorded_is_the_covariance_of_the_honest_rows() -> None:
    what = config(**attacked(rule=Rage(num_byzantine=2)))
    with Federation(what, dataset=classes()) as playing:
        state = playing.start()
        for _ in range(what.rounds):
            state, record = playing.play(state)
            liars = len(record.byzantine)
            honest = playing._pool.matrix[liars : len(record.received)]  # noqa: SLF001  nobody else knows the rows
            values = np.linalg.eigvalsh(covariance(honest))
            assert record.honest_spread == pytest.approx(values[-1], rel=1e-9)
            assert record.honest_scatter == pytest.approx(values.sum(), rel=1e-9)
            assert set(record.seconds) >= {"measuring", "evaluation"}


@pytest.mark.parametrize("attack", [ALittleIsEnough(z=1.5), SignFlip(), Honest()])
@pytest.mark.parametrize(
    "rule",
    [
        Rage(num_byzantine=2),
        Rage(num_byzantine=2, mode="known", sigma0=1.0),
        Rage(num_byzantine=2, mode="exact", sigma0=1.0),
        Rage(num_byzantine=2, mode="exact", sigma0=0.05),
        Rage(num_byzantine=2, mode="lazy", sigma0=0.05),
        Rage(num_byzantine=3, mode="exact", sigma0=0.05),
        Rage(num_byzantine=3),
        Rage(num_byzantine=0),
    ],
    ids=repr,
)
def test_the_error_is_below_what_the_true_spread_promises(attack: Any, rule: Rage) -> None:
    _, records = played(config(**attacked(rule=rule, attack=attack)))
    proved = 0
    for record in records:
        assert record.error is not None
        assert record.num_byzantine is not None
        if record.honest_error_bound is not None:
            proved += 1
            assert record.error <= record.honest_error_bound * (1.0 + 1e-9) + 1e-12
        if len(record.byzantine) > record.num_byzantine:
            assert record.honest_error_bound is None, "nothing is promised with more Byzantine rows than assumed"
    assert proved or rule.num_byzantine == 0


def test_with_more_honest_rows_than_assumed_the_bound_holds_for_their_own_spread() -> None:
    rows = drawn(12, 5)
    spread = 2.0
    for mode in ("exact", "lazy", "known"):
        certificate = Rage(num_byzantine=3, mode=mode, sigma0=4.0)(rows).certificate
        assert certificate is not None
        assert honest_error_bound(certificate, spread, 12) == certificate.error_bound(math.sqrt(spread))
        assert honest_error_bound(certificate, spread, 9) == certificate.error_bound(math.sqrt(spread))
        assert honest_error_bound(certificate, spread, 8) is None
        assert honest_error_bound(certificate, 1e290, 12) is None
    assert honest_error_bound(None, spread, 12) is None


def test_rules_without_a_certificate_have_a_spread_and_no_bound() -> None:
    _, records = played(config(**attacked(rule=Mean())))
    assert all(record.honest_spread is not None and record.honest_error_bound is None for record in records)


def test_skipped_rounds_have_a_spread_and_no_bound() -> None:
    cohorts = ListedCohorts(rounds=(tuple(range(2, 12)), (2, 3, 4)))  # RAGE needs five rows
    _, records = played(config(**attacked(rule=Rage(num_byzantine=2), cohorts=cohorts)))
    assert [record.skipped for record in records] == [False, True, False, True]
    assert all(record.honest_spread is not None and record.honest_scatter is not None for record in records)
    assert [record.honest_error_bound is None for record in records] == [False, True, False, True]


def test_only_measured_rounds_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(rows: Tensor, *more: Any) -> dict[str, float | None]:
        calls.append(len(rows))
        return honest_figures(rows, *more)

    monkeypatch.setattr(federation, "honest_figures", counted)
    _, records = played(config(rounds=5, evaluation=Evaluation(measured_rounds=2)))
    assert calls == [6, 6]
    assert ["measuring" in record.seconds for record in records] == [True, False, False, True, False]


def test_without_measured_rounds_records_are_as_long_as_before() -> None:
    _, records = played(config(evaluation=Evaluation(measured_rounds=0)))
    assert all("honest" not in record.to_line() and "measuring" not in record.to_line() for record in records)


def test_a_round_without_honest_rows_is_not_measured() -> None:
    _, records = played(config(**attacked(byzantine=FractionMembers(fraction=0.99), cohort_size=3, attack=SignFlip())))
    nobody = [record for record in records if len(record.byzantine) == 3]
    assert nobody
    assert all(record.honest_spread is None and record.honest_scatter is None for record in nobody)


def test_a_run_that_diverges_is_measured_without_an_error() -> None:
    what = config(rounds=4, lr=1e150, model=Quadratic(), partition=IidPartition(num_clients=8), evaluation=ALL)
    _, records = played(what, numbers())
    assert records[-1].honest_spread is None
    assert records[-1].honest_error_bound is None


def test_measuring_leaves_no_trace_in_the_training() -> None:
    models = [
        bits(played(config(**attacked(rule=Rage(num_byzantine=2), evaluation=Evaluation(measured_rounds=each))))[0])
        for each in (0, 100)
    ]
    assert all(map(torch.equal, *models))


@pytest.mark.portable
def test_two_processes_measure_the_same_bits() -> None:
    lines = [
        [
            record.model_copy(update={"seconds": {}}).to_line()
            for record in played(config(**attacked(rule=Rage(num_byzantine=2))), jobs=jobs)[1]
        ]
        for jobs in (1, 2)
    ]
    assert lines[0] == lines[1]
    assert all("honest_spread" in line for line in lines[0])
