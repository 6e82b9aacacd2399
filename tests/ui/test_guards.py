"""The door before the live page."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.ui.folders import begun
from tests.ui.visits import app_over, visit

from steadfed._ui.guards import HEADERS, AccessGuard, cookie_name, is_loopback, names_here

TOKEN = "a-token-of-enough-letters"  # noqa: S105  of a test
ADDRESSES = (
    "/",
    "/run/x",
    "/compare",
    "/api/runs",
    "/api/runs/x/panels",
    "/report/x.html",
    "/static/live.js",
    "/nowhere",
)


@pytest.mark.parametrize("path", ADDRESSES)
def test_every_answer_says_what_a_browser_may_do(tmp_path: Path, path: str) -> None:
    headers = visit(app_over(tmp_path), path).headers
    assert {name: headers[name] for name in HEADERS} == HEADERS


def test_the_policy_names_no_other_host() -> None:
    policy = HEADERS["content-security-policy"]
    assert "http" not in policy
    assert "*" not in policy
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_reading_is_allowed(tmp_path: Path, method: str) -> None:
    answer = visit(app_over(tmp_path), "/api/runs", method=method)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["/", "/api/runs", "/api/events", "/static/live.css"])
def test_head_says_what_get_would(tmp_path: Path, path: str) -> None:
    answer = visit(app_over(tmp_path), path, method="HEAD")
    assert answer.status_code == 200
    assert answer.content == b""


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8750", "localhost:8750", "[::1]:8750", "LOCALHOST"])
def test_this_machine_is_known_by_its_names(tmp_path: Path, host: str) -> None:
    assert visit(app_over(tmp_path), "/", host=host).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example:8750",
        "localhost.evil.example",
        "",
        "[evil]",
        "[::1]evil.example",
        "127.0.0.1:8750:evil.example",
        "127.0.0.1@evil.example",
        "evil.example#127.0.0.1",
        "[::1",
        "127.0.0.1:",
    ],
)
def test_other_names_are_refused(tmp_path: Path, host: str) -> None:
    answer = visit(app_over(tmp_path), "/api/runs", host=host)
    assert answer.status_code == 421
    assert "runs" not in answer.text


def test_two_hosts_are_refused() -> None:
    reached = False

    async def behind(scope: Any, receive: Any, send: Any) -> None:
        nonlocal reached
        del scope, receive, send
        reached = True

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    hosts = [(b"host", b"127.0.0.1"), (b"host", b"evil.example")]
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": hosts, "scheme": "http"}
    asyncio.run(AccessGuard(behind)(scope, _nothing, send))
    assert sent[0]["status"] == 421
    assert not reached


async def _nothing() -> Any:
    return {"type": "http.disconnect"}


def test_a_server_for_others_is_known_by_the_name_it_was_given(tmp_path: Path) -> None:
    app = app_over(tmp_path, names=names_here("lab.example"), token=TOKEN)
    assert visit(app, "/", host="lab.example:8750", authorization=f"Bearer {TOKEN}").status_code == 200
    assert visit(app, "/", host="evil.example", authorization=f"Bearer {TOKEN}").status_code == 421


@pytest.mark.parametrize("path", ADDRESSES)
def test_without_the_token_nothing_is_shown(tmp_path: Path, path: str) -> None:
    begun(tmp_path / "secret-run")
    app = app_over(tmp_path, token=TOKEN)
    for more in ("", "?token=", "?token=wrong", f"?token={TOKEN[:-1]}", "?token=%ff%00"):
        answer = visit(app, path + more)
        assert answer.status_code == 401
        assert "secret-run" not in answer.text
        assert "set-cookie" not in answer.headers


def test_the_token_becomes_a_cookie_that_scripts_cannot_read(tmp_path: Path) -> None:
    app = app_over(tmp_path, token=TOKEN)
    answer = visit(app, f"/compare?token={TOKEN}")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert TOKEN not in cookie
    assert "url=/compare" in answer.text
    assert TOKEN not in answer.text
    assert visit(app, "/api/runs", cookie=cookie.partition(";")[0]).status_code == 200


def test_wrong_cookies_and_headers_are_refused(tmp_path: Path) -> None:
    app = app_over(tmp_path, token=TOKEN)
    for wrong in (f"{cookie_name(TOKEN)}={TOKEN}", f"{cookie_name(TOKEN)}=x", "token=1", "\x01=;;;"):
        assert visit(app, "/", cookie=wrong).status_code == 401
    for wrong in ("Bearer wrong", f"Basic {TOKEN}", "Bearer"):
        assert visit(app, "/", authorization=wrong).status_code == 401


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example/", "/%22%3E%3Cscript%3E"])
def test_the_welcome_leads_nowhere_else(tmp_path: Path, path: str) -> None:
    app = app_over(tmp_path, token=TOKEN)
    scope_path = f"http://127.0.0.1:8750{path}?token={TOKEN}"
    text = visit(app, scope_path).text
    assert "url=//" not in text
    assert "url=/\\" not in text
    assert "<script>" not in text


@pytest.mark.parametrize(
    ("host", "only_here"),
    [("127.0.0.1", True), ("127.5.5.5", True), ("::1", True), ("localhost", True), ("10.0.0.5", False), ("lab", False)],
)
def test_hosts_that_others_can_reach_are_known(host: str, only_here: bool) -> None:
    assert is_loopback(host) is only_here
