"""Data sets by name and as tables."""

from __future__ import annotations

import tomllib

import pytest
import tomli_w

from steadfed.data import DATASETS
from steadfed.data._base import DataSource
from steadfed.errors import ParameterError, UnknownNameError

EXAMPLES: list[DataSource] = [
    DATASETS.build("digits"),
    DATASETS.build("mnist", path="somewhere"),
    DATASETS.build("heart-disease", intercept=True, test_fraction=0),
    DATASETS.build("libsvm", path="w8a", test_path="w8a.t", num_features=300),
    DATASETS.build("tiny-shakespeare", sequence_length=20),
    DATASETS.build("hugging-face", path="own", features=("a", "b"), groups="c"),
    DATASETS.build("torch-dataset", factory="package.module:function"),
    DATASETS.build("remote"),
    DATASETS.build("synthetic-logistic", label_noise=0.2, seed=7),
]


@pytest.mark.parametrize("source", EXAMPLES, ids=str)
def test_tables_give_the_same_source_back(source: DataSource) -> None:
    assert DATASETS.from_table(DATASETS.to_table(source)) == source
    assert DATASETS.from_table(tomllib.loads(tomli_w.dumps(DATASETS.to_table(source)))) == source
    assert type(source) is DATASETS[DATASETS.name(source)]


@pytest.mark.parametrize("source", EXAMPLES, ids=str)
def test_repr_is_the_code_that_builds_the_source(source: DataSource) -> None:
    assert eval(repr(source), {kind.__name__: kind for kind in DATASETS.values()}) == source  # noqa: S307  our own repr


def test_names_are_sorted_and_every_source_says_where_it_is_from() -> None:
    assert list(DATASETS) == sorted(DATASETS)
    assert len(set(DATASETS.values())) == len(DATASETS)
    assert all(kind.citation and kind.__doc__ for kind in DATASETS.values())


def test_unknown_names_and_parameters_are_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'fashion-mnist'"):
        DATASETS.build("fashon-mnist")
    with pytest.raises(ParameterError, match="did you mean 'path'"):
        DATASETS.build("mnist", pat="x")
    with pytest.raises(ParameterError, match="path"):
        DATASETS.build("mnist", path="")
