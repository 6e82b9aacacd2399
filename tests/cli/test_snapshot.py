"""What list and init say without torch is what the classes say, and nobody waits for torch who need not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.commands import ONE_THREAD, run, small_config

from steadfed._cli import snapshot
from steadfed._cli.list import KINDS
from steadfed.runs import Run, read_config

HEAVY = {"torch", "scipy", "sklearn", "matplotlib", "polars", "plotly", "pandas"}


def test_what_is_written_down_is_what_the_classes_say() -> None:
    assert snapshot.FILE.read_text(encoding="utf-8") == snapshot.taken(), "run `make docs`"


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = read_config(small_config(tmp_path_factory.mktemp("config")))
    started = Run.start(config, tmp_path_factory.mktemp("runs") / "one")
    next(started.play())
    return started.folder.path


COMMANDS = (
    ["--help"],
    ["--version"],
    ["init"],
    ["init", "--help"],
    *(["list", kind] for kind in KINDS),
    ["list", "rules", "--long"],
    ["list", "attacks", "sleeper+sign-flip"],
    ["show", "RUN"],
    ["show", "RUN", "--json"],
    ["show", "RUN", "--round", "0"],
    ["show", "RUN", "--clients", "--sort", "weight"],
)


def test_none_of_these_commands_loads_torch_or_anything_as_slow(run_folder: Path, tmp_path: Path) -> None:
    """In one process, one after the other: whichever loads something is named."""
    commands = [[part.replace("RUN", str(run_folder)) for part in command] for command in COMMANDS]
    code = f"""
import sys
from steadfed._cli import main
for command in {commands!r}:
    sys.argv = ["steadfed", *command]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (command, end.code)
    loaded = {HEAVY!r} & set(sys.modules)
    assert not loaded, (command, loaded)
"""
    done = subprocess.run(  # noqa: S603  our own code
        [sys.executable, "-c", code], cwd=tmp_path, env=ONE_THREAD, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run.toml").is_file()


def test_a_name_that_was_registered_since_is_listed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {kind: dict(entries) for kind, entries in snapshot.known()["kinds"].items()}
    del kinds["rules"]["krum"]
    monkeypatch.setattr(snapshot, "known", lambda: {"kinds": kinds, "start": ""})
    assert run("list", "rules", "nnm+krum").startswith("nnm\n")
