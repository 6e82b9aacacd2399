"""What a notebook shows of a run, and the data frames that it works on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from tests.simulation.small import classes, config

from steadfed import RunHistory, run
from steadfed.errors import RunError, UnknownNameError


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> RunHistory:
    return run(config(rounds=3), tmp_path_factory.mktemp("notebook") / "a <b>run</b>", dataset=classes())


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_has_all_columns_and_a_row_for_every_round(history: RunHistory, library: str) -> None:
    pytest.importorskip(library)
    frame = getattr(history, f"to_{library}")()
    assert list(frame.columns) == history.columns
    assert frame["round"].to_list() == [0, 1, 2]
    assert str(frame["round"].dtype).lower() == "int64"
    assert frame["update_norm"].to_list() == history["update_norm"].tolist()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_library_that_is_missing_is_named_with_the_extra(
    history: RunHistory, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(RunError, match=rf"^{library} is not installed, .* pip install 'steadfed\[notebook\]'$"):
        getattr(history, f"to_{library}")()


def test_the_page_of_a_run_holds_facts_and_a_plot_and_its_names_are_text(history: RunHistory) -> None:
    pytest.importorskip("matplotlib")
    page = history._repr_html_()
    assert "a &lt;b&gt;run&lt;/b&gt;" in page
    assert "<b>" not in page
    assert "complete, 3 rounds" in page
    assert "src='data:image/png;base64,iVBOR" in page
    assert "script" not in page


def test_without_matplotlib_there_is_the_table_alone(history: RunHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steadfed.reports._notebook.find_spec", lambda _: None)
    assert "<img" not in history._repr_html_()
    with pytest.raises(RunError, match=r"matplotlib is not installed, .* pip install 'steadfed\[plot\]'"):
        history.plot()


def words_in(figure: Figure) -> set[str]:
    return {found.get_text() for found in figure.findobj(Text)}


def test_plots_are_those_of_the_report_by_name(history: RunHistory) -> None:
    pytest.importorskip("matplotlib")
    usual, two = history.plot(), history.plot("weights", "seconds")
    assert "Accuracy over the rounds" in words_in(usual)
    assert {"Weight of each client in each round", "Seconds of a round"} <= words_in(two)
    assert usual._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    with pytest.raises(UnknownNameError, match="unknown plot 'weigths', did you mean 'weights'"):
        history.plot("weigths")


def test_a_run_that_tells_nothing_is_shown_all_the_same(tmp_path: Path) -> None:
    nowhere = RunHistory(tmp_path / "none")
    assert "damaged" in nowhere._repr_html_()
    with pytest.raises(RunError, match="has no round yet that could be drawn"):
        nowhere.plot()
