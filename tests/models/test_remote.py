"""A model that is known by its arrays only."""

from __future__ import annotations

import pytest
from tests.models.points import points

from steadfed.errors import DataError, ParameterError
from steadfed.models import MODELS, RemoteModel

MODEL = RemoteModel(dim=1_234, fingerprint="0f" * 32)


def test_it_can_be_written_down_and_read_back() -> None:
    assert MODELS.from_table(MODELS.to_table(MODEL)) == MODEL
    assert eval(repr(MODEL), {"RemoteModel": RemoteModel}) == MODEL  # noqa: S307  our own repr


def test_it_cannot_be_built_and_has_no_loss() -> None:
    with pytest.raises(DataError, match=r"knows the arrays only, 1,234 parameters.*To simulate the run, name a model"):
        MODEL.build(points(4), seed=0)
    with pytest.raises(DataError, match="its loss are with the clients"):
        MODEL.loss()


@pytest.mark.parametrize("given", [{}, {"dim": 0}, {"dim": 3, "fingerprint": "no hash"}])
def test_what_is_no_model_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match=r"dim|fingerprint"):
        RemoteModel(**given)
