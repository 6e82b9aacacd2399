"""Data sets by name and as tables."""

from __future__ import annotations

import tomllib

import pytest
import tomli_w

from holdfast.data import DATASETS, build_dataset, dataset_from_table, dataset_name, dataset_table
from holdfast.data.base import DataSource
from holdfast.errors import ParameterError, UnknownNameError

EXAMPLES: list[DataSource] = [
    build_dataset("digits"),
    build_dataset("mnist", path="somewhere"),
    build_dataset("heart-disease", intercept=True, test_fraction=0),
    build_dataset("libsvm", path="w8a", test_path="w8a.t", num_features=300),
    build_dataset("tiny-shakespeare", sequence_length=20),
    build_dataset("hugging-face", path="own", features=("a", "b"), groups="c"),
    build_dataset("torch-dataset", factory="package.module:function"),
    build_dataset("remote"),
    build_dataset("synthetic-logistic", label_noise=0.2, seed=7),
]


@pytest.mark.parametrize("source", EXAMPLES, ids=str)
def test_tables_give_the_same_source_back(source: DataSource) -> None:
    assert dataset_from_table(dataset_table(source)) == source
    assert dataset_from_table(tomllib.loads(tomli_w.dumps(dataset_table(source)))) == source
    assert type(source) is DATASETS[dataset_name(source)]


@pytest.mark.parametrize("source", EXAMPLES, ids=str)
def test_repr_is_the_code_that_builds_the_source(source: DataSource) -> None:
    assert eval(repr(source), {kind.__name__: kind for kind in DATASETS.values()}) == source  # noqa: S307  our own repr


def test_names_are_sorted_and_every_source_says_where_it_is_from() -> None:
    assert list(DATASETS) == sorted(DATASETS)
    assert len(set(DATASETS.values())) == len(DATASETS)
    assert all(kind.citation and kind.__doc__ for kind in DATASETS.values())


def test_unknown_names_and_parameters_are_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'fashion-mnist'"):
        build_dataset("fashon-mnist")
    with pytest.raises(ParameterError, match="did you mean 'path'"):
        build_dataset("mnist", pat="x")
    with pytest.raises(ParameterError, match="path"):
        build_dataset("mnist", path="")
