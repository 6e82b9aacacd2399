"""Text of others becomes a value that everything can use, or one error."""

from __future__ import annotations

import json
import math
import string
from collections.abc import Callable

import pytest
import tomli_w
from hypothesis import given, strategies as st

from steadfed._core.parsing import parse_json, parse_toml, parse_whole
from steadfed._core.ranges import check_positive, check_whole
from steadfed._core.values import LARGEST_WHOLE, real_number, shown, whole_number
from steadfed.errors import ParameterError, SteadfedError
from steadfed.runs import config_from_toml
from steadfed.simulation import RunConfig, config_table

HUGE = [
    "9" * 19,
    "9" * 400,
    "9" * 5_000,
    f"-{'9' * 5_000}",
    f"0x{'f' * 5_000}",
    "1e400",
    "[" * 30 + "9" * 400 + "]" * 30,
]
"""Numbers of TOML that Python reads, or fails at, and that nothing else takes."""


def _keys(table: object, prefix: str = "") -> list[str]:
    if not isinstance(table, dict):
        return [prefix]
    return [key for name, inner in table.items() for key in _keys(inner, f"{prefix}.{name}" if prefix else name)]


def _outcome(read: Callable[[str], object], text: str) -> tuple[object, str]:
    """Return what is read and no complaint, or the complaint; any other error is nobody's."""
    try:
        return read(text), ""
    except SteadfedError as error:
        return None, str(error)


@given(st.text(string.digits + "+-_ ٣²x.e", max_size=60), st.integers(-10, 10), st.integers(10, 10**7))
def test_a_whole_number_is_in_its_range_or_refused(text: str, least: int, most: int) -> None:
    number, complaint = _outcome(lambda given: parse_whole(given, least, most), text)
    if complaint:
        assert "expected a whole number from" in complaint
        assert len(complaint) < 200
    else:
        assert isinstance(number, int)
        assert least <= number <= most
        assert number == int(text)


@given(st.integers(-(10**45), 10**45))
def test_without_a_largest_number_it_is_one_that_arrays_take(number: int) -> None:
    if abs(number) < LARGEST_WHOLE:
        assert parse_whole(str(number), -LARGEST_WHOLE) == number
    else:
        with pytest.raises(ParameterError, match="expected a whole number"):
            parse_whole(str(number), -LARGEST_WHOLE)


@given(st.sampled_from(_keys(config_table(RunConfig()))), st.sampled_from(HUGE))
def test_no_number_of_a_configuration_ends_in_another_error(key: str, number: str) -> None:
    _, complaint = _outcome(config_from_toml, f"{key} = {number}")
    assert 0 < len(complaint) < 2_000
    _outcome(lambda setting: config_from_toml("", [setting]), f"{key}={number}")  # some keys take it as text


@given(st.recursive(st.integers() | st.floats(allow_nan=False) | st.text(), lambda inner: st.lists(inner, max_size=3)))
def test_toml_is_as_it_was_written_or_refused(value: object) -> None:
    found, complaint = _outcome(parse_toml, tomli_w.dumps({"value": value}))
    assert found == {"value": value} or "64 bits" in complaint or "tables in tables" in complaint


@given(st.text("[]{}=.\"'\n ab1", max_size=200))
def test_toml_of_any_letters_is_a_table_or_one_error(text: str) -> None:
    found, complaint = _outcome(parse_toml, text)
    assert isinstance(found, dict) or complaint.startswith("not valid TOML: ")


@given(st.recursive(st.integers() | st.none() | st.text(), lambda inner: st.dictionaries(st.text(), inner, max_size=3)))
def test_json_is_as_it_was_written_or_refused(value: object) -> None:
    found, complaint = _outcome(parse_json, json.dumps(value))
    assert found == value if not complaint else "40 letters" in complaint


@pytest.mark.parametrize("text", [b"\xff", "[" * 100_000, '{"a": ' * 100_000, "9" * 5_000, "{", '"\x00"', "1 2", ""])
def test_what_is_no_json_is_one_error(text: str | bytes) -> None:
    with pytest.raises(ParameterError, match="not valid JSON"):
        parse_json(text)


def test_a_whole_number_of_json_comes_near_a_float() -> None:
    assert math.isfinite(float(parse_json("9" * 40)))
    with pytest.raises(ParameterError, match="may have 40 letters, got 41"):
        parse_json("9" * 41)


@pytest.mark.parametrize("value", [10**19, 10**400, -(10**400), 1 << 50_000], ids=["19", "400", "-400", "too many"])
def test_numbers_too_large_are_refused_whoever_gives_them(value: int) -> None:
    with pytest.raises(ValueError, match="63 bits"):
        whole_number(value)
    with pytest.raises(ParameterError, match="rounds must be a whole number"):
        check_whole("rounds", value)
    with pytest.raises(ParameterError, match="rounds: input should be a whole number of at most 63 bits"):
        RunConfig(rounds=value)
    if value > 10**300 or value < 0:
        with pytest.raises(ParameterError, match="lr must be"):
            check_positive("lr", value)
    assert real_number(10**300) == 1e300


def test_a_value_is_shown_whatever_it_is() -> None:
    assert shown("ab") == "'ab'"
    assert len(shown(list(range(10_000)))) == 400
    assert shown([1 << 50_000]) == "list with a number of more digits than can be written"
