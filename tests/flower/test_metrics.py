"""Metrics that clients report."""

from __future__ import annotations

import math
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from hypothesis import given, strategies as st

from steadfed.flower._metrics import LONGEST_NAME, MOST_METRICS, common_metrics, scalars_of


def reply(**metrics: Any) -> RecordDict:
    return RecordDict({"metrics": MetricRecord(metrics)})


def test_only_finite_numbers_are_read() -> None:
    content = reply(a=1, b=2.5, c=math.inf, d=math.nan, e=[1.0], f=10**400)
    assert scalars_of(content) == {"a": 1.0, "b": 2.5}


def test_records_of_other_kinds_are_ignored_and_the_first_of_a_name_counts() -> None:
    content = RecordDict(
        {
            "config": ConfigRecord({"a": 5}),
            "arrays": ArrayRecord(),
            "one": MetricRecord({"a": 1}),
            "two": MetricRecord({"a": 2, "b": 3}),
        }
    )
    assert scalars_of(content) == {"a": 1.0, "b": 3.0}


def test_neither_many_nor_long_nor_unprintable_names_are_read() -> None:
    assert len(scalars_of(reply(**{str(i): i for i in range(10 * MOST_METRICS)}))) == MOST_METRICS
    assert scalars_of(reply(**{"x" * LONGEST_NAME: 1, "y" * (LONGEST_NAME + 1): 1, "a\nb": 1})) == {
        "x" * LONGEST_NAME: 1.0
    }


@given(
    st.recursive(
        st.none() | st.floats() | st.integers() | st.text(max_size=9) | st.booleans(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=9) | st.integers(), inner),
        max_leaves=10,
    )
)
def test_nothing_makes_it_raise(value: Any) -> None:
    record = MetricRecord()
    record.__dict__["_data"] = value if isinstance(value, dict) else {"a": value}
    content = RecordDict()
    content.__dict__["_data"] = {"metrics": record}
    scalars = scalars_of(content)
    assert all(type(name) is str and math.isfinite(number) for name, number in scalars.items())
    assert scalars_of(value) == {}


def test_a_metric_counts_if_more_than_half_report_it() -> None:
    reports = [{"loss": 1.0, "rare": 1.0}, {"loss": 3.0, "rare": 1.0}, {"loss": 2.0}, {"loss": 1e300}]
    assert common_metrics(reports) == {"loss": 2.5}
    assert common_metrics([]) == {}
    assert common_metrics([{"b": 1.0, "a": 2.0**1023}, {"b": 1.0, "a": 1.5 * 2.0**1023}]) == {
        "a": 1.25 * 2.0**1023,
        "b": 1.0,
    }
