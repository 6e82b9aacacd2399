"""The live page served."""

from __future__ import annotations

import signal
import socket
import urllib.request
from pathlib import Path

import pytest
from tests.ui.servers import served

from steadfed._ui.server import PageAddress, check_token, listen, serve
from steadfed.errors import ParameterError


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_although_somebody_listens(tmp_path: Path, how: signal.Signals) -> None:
    with served(tmp_path) as (process, address):
        with urllib.request.urlopen(f"{address}api/events", timeout=60) as events:  # noqa: S310
            while (line := events.readline()) and b"event: changed" not in line:
                pass  # pings, and the id
            assert line
            process.send_signal(how)
            assert process.wait(timeout=30) == -how
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_a_port_in_use_is_named_with_the_way_out(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ParameterError, match=rf"port {port} of 127.0.0.1 is in use.*--port"):
            serve(tmp_path, host="127.0.0.1", port=port, token=None, ready=lambda _: None)


def test_a_server_that_has_just_ended_leaves_its_port(tmp_path: Path) -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            first.accept()[0].close()
    with listen("127.0.0.1", port):
        pass


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_a_host_that_is_not_here_is_refused(host: str) -> None:
    with pytest.raises(ParameterError, match="--host"):
        listen(host, 0)


def test_a_file_is_no_folder_of_runs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ParameterError, match="is not a folder"):
        serve(tmp_path / "file", host="127.0.0.1", port=0, token=None, ready=lambda _: None)


def test_a_token_is_made_up_for_others_only() -> None:
    assert check_token(None, "127.0.0.1") is None
    made = check_token(None, "0.0.0.0")  # noqa: S104  nothing is bound
    assert made is not None
    assert len(made) >= 32
    assert made != check_token(None, "0.0.0.0")  # noqa: S104
    assert check_token("long-enough", "127.0.0.1") == "long-enough"


@pytest.mark.parametrize("token", ["", "short", "with spaces in it", "ümlautümlaut", "a&b=c#de/f"])
def test_poor_tokens_are_refused_and_not_repeated(token: str) -> None:
    with pytest.raises(ParameterError, match="at least 8") as refused:
        check_token(token, "127.0.0.1")
    assert not token or token not in str(refused.value)


def test_the_address_can_be_opened() -> None:
    assert PageAddress(host="127.0.0.1", port=8750, token=None).address == "http://127.0.0.1:8750/"
    assert PageAddress(host="::1", port=1, token="abc").address == "http://[::1]:1/?token=abc"  # noqa: S106
    assert PageAddress(host="0.0.0.0", port=1, token=None).address == f"http://{socket.gethostname()}:1/"  # noqa: S104
