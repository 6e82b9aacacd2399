"""Text that was written by others is shown and never obeyed."""

from __future__ import annotations

import html

from hypothesis import given
from hypothesis import strategies as st
from tests.reports.nasty import NASTY

from holdfast.reports.wording import hover, label, prose, shown

ANY = st.text(st.characters(codec=None))


@given(ANY)
def test_every_letter_of_what_is_shown_can_be_seen_and_written(text: str) -> None:
    assert shown(text).isprintable()
    shown(text).encode()
    prose(text).encode()


@given(ANY)
def test_a_label_has_no_markup_and_says_what_is_shown(text: str) -> None:
    found = label(text, limit=1_000)
    assert "<" not in found
    assert "%{" not in found
    assert html.unescape(found).replace("%\u200b{", "%{") == shown(text, limit=1_000)


def test_names_that_mean_harm_have_no_markup_in_labels_and_only_ends_of_lines_in_hovers() -> None:
    for name in NASTY:
        assert "<" not in label(name)
        assert "<" not in hover(name).replace("<br>", "")


def test_what_is_cut_is_cut_before_it_is_escaped() -> None:
    assert label("<" * 10, limit=5) == "&lt;&lt;&lt;&lt;…"


def test_paragraphs_keep_the_ends_of_lines_and_all_of_their_letters() -> None:
    text = "a\n\tb" + "x" * 10_000
    assert prose(text) == text
    assert prose("a\u202eb") == "a\\u202eb"
