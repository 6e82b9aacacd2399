"""`steadfed ui`, as a user meets it."""

from __future__ import annotations

import importlib.util
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import refused, run

from steadfed._ui import server
from steadfed._ui.server import PageAddress


def test_ui_says_where_the_page_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def serve(folder: Path, **options: Any) -> None:
        asked.update(options, folder=folder)
        options["ready"](PageAddress(host=options["host"], port=options["port"], token=options["token"]))

    monkeypatch.setattr(server, "serve", serve)
    assert "http://127.0.0.1:8750/ " in run("ui", str(tmp_path))
    assert asked["folder"] == tmp_path
    assert "/?token=a-long-token" in run("ui", "--host", "10.0.0.1", "--token", "a-long-token")
    assert asked["folder"] == Path("runs")


def test_ui_refuses_a_port_in_use_and_a_poor_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        assert "--port" in refused(capsys, monkeypatch, "ui", str(tmp_path), "--port", port)
    assert "at least 8" in refused(capsys, monkeypatch, "ui", str(tmp_path), "--token", "x")


def test_ui_without_its_packages_says_how_to_get_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "starlette" else genuine(name))
    told = refused(capsys, monkeypatch, "ui", str(tmp_path))
    assert "starlette" in told
    assert "pip install 'steadfed[ui]'" in told
