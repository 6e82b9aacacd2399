"""What tests share is made once, and nobody changes it unnoticed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.shared import shared_folder


def make(folder: Path) -> None:
    folder.mkdir()
    (folder / "file").write_text("content", encoding="utf-8")


def test_a_folder_is_made_once(tmp_path: Path) -> None:
    for _ in range(2):
        with shared_folder(tmp_path, "shared", make) as folder:  # to make it twice would fail
            assert [path.name for path in folder.iterdir()] == ["file"]


@pytest.mark.parametrize("name", ["file", "another"])
def test_a_change_is_found_at_the_end(tmp_path: Path, name: str) -> None:
    with (
        pytest.raises(AssertionError, match="a test has changed"),
        shared_folder(tmp_path, "shared", make) as folder,
    ):
        (folder / name).write_text("changed", encoding="utf-8")
