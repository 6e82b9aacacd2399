"""How things are worded."""

from __future__ import annotations

from hypothesis import given, strategies as st

from steadfed._core.wording import harmless, prose


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_nothing_that_a_terminal_obeys_comes_through(text: str, limit: int) -> None:
    shown = harmless(text, limit=limit)
    assert shown.isprintable()
    assert len(shown) <= limit


@given(st.text(alphabet="aé[]/\\ü 漢", max_size=40))
def test_plain_letters_stay_as_they_are(text: str) -> None:
    assert harmless(text, limit=40) == text


def test_lone_surrogates_are_spelled_out() -> None:
    assert harmless("\ud800") == "\\ud800"


ANY = st.text(st.characters(codec=None))


@given(ANY)
def test_every_letter_of_what_is_shown_can_be_seen_and_written(text: str) -> None:
    assert harmless(text).isprintable()
    harmless(text).encode()
    prose(text).encode()


def test_paragraphs_keep_the_ends_of_lines_and_all_of_their_letters() -> None:
    text = "a\n\tb" + "x" * 10_000
    assert prose(text) == text
    assert prose("a\u202eb") == "a\\u202eb"
