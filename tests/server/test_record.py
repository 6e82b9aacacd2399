from __future__ import annotations

import json
import math

import pytest

from steadfed.errors import CorruptRunError
from steadfed.server._record import Deviation, RoundRecord


def record() -> RoundRecord:
    nan, infinity = float("nan"), float("inf")
    return RoundRecord(
        round=3,
        step=15,
        lr=0.1,
        cohort=(1, "ü\u2028"),
        received=(1, "ü\u2028"),
        weights=(1.0, 0.0),
        scores=(0.1, nan),
        kept=(1,),
        error=infinity,
        certificate={"bound": infinity, "steps": [1.0, nan, {"deep": -infinity}], "mode": "exact"},
        seconds={"attack": 0.5},
    )


def test_a_record_is_one_line_and_comes_back() -> None:
    line = record().to_line()
    assert line.count("\n") == 1
    assert line.isascii()
    assert RoundRecord.from_line(line) == record()
    assert RoundRecord.from_line(line).to_line() == line


def test_deviations_come_back_and_leave_no_trace_where_there_are_none() -> None:
    deviations = (Deviation(client="ü", layers={"head.weight": 0.75, "\u2028": 0.25}),)
    told = record().model_copy(update={"deviations": deviations})
    again = RoundRecord.from_line(told.to_line())
    assert again == told
    assert list(again.deviations[0].layers) == ["head.weight", "\u2028"]
    assert "deviations" not in record().to_line()
    bad: list[dict[str, object]] = [{"layers": {}}, *({"client": 1, "layers": {"a": each}} for each in ("b", math.inf))]
    for wrong in bad:
        with pytest.raises(CorruptRunError):
            RoundRecord.from_line(json.dumps({**json.loads(record().to_line()), "deviations": [wrong]}))


def test_numbers_that_are_not_finite_are_written_as_null_at_any_depth() -> None:
    written = json.loads(record().to_line())
    assert written["scores"] == [0.1, None]
    assert written["certificate"] == {"bound": None, "steps": [1.0, None, {"deep": None}], "mode": "exact"}
    assert "error" not in written


def test_the_removed_are_those_that_came_and_were_not_kept() -> None:
    assert record().removed == ("ü\u2028",)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("", "JSON"),
        ("[]", "object"),
        ('{"round":1}', "step"),
        ('{"round":1,"step":1,"lr":NaN,"cohort":[]}', "lr"),
        ('{"round":1,"step":1,"lr":0.1,"cohort":[1.5]}', "cohort"),
        ('{"round":"' + 200 * "x" + '"}', "…"),
    ],
)
def test_a_line_that_is_no_record_is_shown_with_the_reason(line: str, complaint: str) -> None:
    with pytest.raises(CorruptRunError, match=complaint):
        RoundRecord.from_line(line)
