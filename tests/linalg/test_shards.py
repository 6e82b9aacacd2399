"""Two processes that hold half of the columns each decide as one process that holds them all."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.linalg import ranks
from torch.multiprocessing.spawn import spawn

from steadfed._linalg.shards import ShardedColumns
from steadfed.errors import InputError

Results = list[dict[str, NDArray[np.float64]]]

ROUNDING = {np.float32: 1e-7, np.float64: 1e-9}
"""How far weights may differ because the products of a block are summed in the dtype of the rows."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Return what each of the two ranks wrote down."""
    folder = tmp_path_factory.mktemp("shards")
    spawn(ranks.aggregate_shards, args=(str(folder),), nprocs=2)  # type: ignore[no-untyped-call]
    return [dict(np.load(folder / f"rank{rank}.npz")) for rank in range(2)]


@pytest.mark.parametrize("with_nan", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ranks.RULES)
def test_two_shards_decide_as_one_process(
    name: str, dtype: type[np.floating], with_nan: bool, results: Results
) -> None:
    whole = ranks.RULES[name](ranks.rows(dtype, with_nan=with_nan))
    key = f"{name}/{np.dtype(dtype)}/{with_nan}"
    for result in results:
        np.testing.assert_allclose(result[key + "/weights"], whole.weights.numpy(), rtol=0.0, atol=ROUNDING[dtype])
        np.testing.assert_array_equal(result[key + "/usable"], whole.usable.numpy())
    update = np.concatenate([result[key + "/update"] for result in results])
    np.testing.assert_allclose(update, whole.update.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", ranks.RULES)
def test_a_bad_number_on_one_rank_drops_the_client_on_both(name: str, results: Results) -> None:
    for result in results:
        assert np.flatnonzero(~result[f"{name}/float32/True/usable"].astype(bool)).tolist() == [7]
        assert result[f"{name}/float32/True/weights"][7] == 0.0
        assert np.isfinite(result[f"{name}/float32/True/update"]).all()


@pytest.mark.parametrize("name", ranks.RULES)
def test_both_ranks_apply_the_same_bits(name: str, results: Results) -> None:
    key = f"{name}/float32/False/weights"
    np.testing.assert_array_equal(results[0][key], results[1][key])


def test_all_ranks_act_on_what_the_first_decided_and_on_the_sum_of_what_they_counted(results: Results) -> None:
    for result in results:
        assert result["agreed"].tolist() == [1.0, 5.0]
        assert result["total"].tolist() == [3.0, 9.0]


def test_shards_that_do_not_fit_together_are_refused_on_both_ranks(results: Results) -> None:
    assert [str(result["refusal/rows"]) for result in results] == ["ShapeError"] * 2
    assert [str(result["refusal/dtype"]) for result in results] == ["DtypeError"] * 2


def test_ranks_sketch_their_shards_with_one_secret_and_agree(results: Results) -> None:
    first, second = results
    for name in ("wide", "narrow"):
        np.testing.assert_array_equal(first[f"sketch/{name}/weights"], second[f"sketch/{name}/weights"])
        np.testing.assert_array_equal(first[f"sketch/{name}/told"], second[f"sketch/{name}/told"])
        assert first[f"sketch/{name}/weights"][:10].sum() <= 0.02
    assert first["sketch/wide/told"][0] > 0
    assert first["sketch/narrow/told"][0] == 0, "a shard that is too narrow keeps all from sketching"


def test_ranks_agree_on_whether_a_sketch_fits(results: Results) -> None:
    first, second = (result["sketch/fits"].tolist() for result in results)
    assert first == second
    assert first[0]
    assert not first[-1]


def test_shards_need_a_process_group() -> None:
    with pytest.raises(InputError, match="init_process_group"):
        ShardedColumns(torch.zeros((2, 3)))
