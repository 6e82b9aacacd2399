"""Documents cannot drift: their Python blocks run, and what they say is printed is printed."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from holdfast.cli.reference import PAGES

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_python_blocks_run_and_print_what_is_shown(path: Path) -> None:
    printed = None
    for language, body in BLOCK.findall(path.read_text(encoding="utf-8")):
        if language == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(body, str(path), "exec"), {})  # noqa: S102  the project's own documents
            printed = output.getvalue()
        elif language == "text" and printed:
            assert printed.strip() == body.strip()
            printed = None


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for target in LINK.findall(path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES)
def test_generated_pages_are_what_the_code_says(page: str) -> None:
    assert (ROOT / "docs" / page).read_text(encoding="utf-8") == PAGES[page](), "run `make docs`"


def test_readme_shows_the_two_commands_first() -> None:
    commands = re.findall(r"^make \w+", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert commands[:2] == ["make demo", "make test"]


def test_architecture_stays_short_and_names_files_that_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    for name in re.findall(r"`(src/holdfast/[\w/]+\.py)`", text):
        assert (ROOT / name).exists(), name
