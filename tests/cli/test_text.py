"""How things are worded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.text import harmless


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_nothing_that_a_terminal_obeys_comes_through(text: str, limit: int) -> None:
    shown = harmless(text, limit)
    assert shown.isprintable()
    assert len(shown) <= limit


@given(st.text(alphabet="aé[]/\\ü 漢", max_size=40))
def test_plain_letters_stay_as_they_are(text: str) -> None:
    assert harmless(text, 40) == text


def test_lone_surrogates_are_spelled_out() -> None:
    assert harmless("\ud800") == "\\ud800"
