"""Labels of plots show text that was written by others, and never obey it."""

from __future__ import annotations

import html

from hypothesis import given, strategies as st
from tests.reports.nasty import NASTY

from steadfed._core.wording import harmless
from steadfed.reports._render.labels import hover, label

ANY = st.text(st.characters(codec=None))


@given(ANY)
def test_a_label_has_no_markup_and_says_what_is_shown(text: str) -> None:
    found = label(text, limit=1_000)
    assert "<" not in found
    assert "%{" not in found
    assert html.unescape(found).replace("%\u200b{", "%{") == harmless(text, limit=1_000)


def test_names_that_mean_harm_have_no_markup_in_labels_and_only_ends_of_lines_in_hovers() -> None:
    for name in NASTY:
        assert "<" not in label(name)
        assert "<" not in hover(name).replace("<br>", "")


def test_what_is_cut_is_cut_before_it_is_escaped() -> None:
    assert label("<" * 10, limit=5) == "&lt;&lt;&lt;&lt;…"
