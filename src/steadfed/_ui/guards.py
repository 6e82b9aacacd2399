"""Who may come in: a door before every address of the live page.

Only GET and HEAD. The Host that a visitor names must be one that cannot be turned against its owner: a page elsewhere
may make its own name point to 127.0.0.1 and would then be of the same origin (DNS rebinding), but it cannot make its
name be an address of digits, localhost or this machine's. Where others can reach the server, they need the token.
"""

from __future__ import annotations

import hashlib
import hmac
import html
import ipaddress
import re
import socket
from http.cookies import CookieError, SimpleCookie
from typing import final
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the pages may do: Plotly styles its drawings in place and makes pictures; nothing comes from elsewhere."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""What every answer says."""
_ALLOWED = "GET, HEAD"
_HOST = re.compile(r"(\[(?P<address>[^\[\]]+)\]|(?P<name>[^:\[\]]+))(:[0-9]{1,5})?")
"""What a Host header looks like."""


@final
class AccessGuard:
    """Lets in who may, and says of every answer what a browser may do with it."""

    def __init__(self, app: ASGIApp, *, names: frozenset[str] = frozenset(), token: str | None = None) -> None:
        """Stand before an app.

        Args:
            app: what is behind the door.
            names: hosts that visitors may name besides localhost and addresses of digits, in small letters.
            token: what they must show; nothing if None.
        """
        self._app = app
        self._names = names | {"localhost"}
        self._token = token
        self._cookie = "" if token is None else cookie_name(token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer at the door, or let the request through."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        answer = self._answer(scope)
        await (self._app if answer is None else answer)(scope, receive, told)

    def _answer(self, scope: Scope) -> Response | None:
        """Return what to say at the door; None to let in."""
        headers = Headers(scope=scope)
        if scope["method"] not in {"GET", "HEAD"}:
            return PlainTextResponse("This page only shows.\n", 405, {"allow": _ALLOWED})
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not is_harmless(hosts[0], self._names):
            return PlainTextResponse("This server is not known by that name; use its address.\n", 421)
        if self._token is None or self._is_authorized(headers):
            return None
        shown = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if _same(shown, self._token):
            return self._grant_cookie(scope)
        told = "This page needs a token: open the address that `steadfed ui` printed.\n"
        return PlainTextResponse(told, 401, {"www-authenticate": "Bearer"})

    def _is_authorized(self, headers: Headers) -> bool:
        """Tell whether a cookie or a header shows the token."""
        token = self._token or ""
        kind, _, shown = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and _same(shown.strip(), token):
            return True
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return found is not None and _same(found.value, _secret(token))

    def _grant_cookie(self, scope: Scope) -> Response:
        """Give the cookie and go on to the page, whose address no longer has the token in it.

        A redirect would do, were it not that browsers leave a strict cookie out of one that began elsewhere.
        """
        path = html.escape("/" + scope["path"].lstrip("/\\"))
        page = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={path}"><p>Welcome.'
        response = HTMLResponse(page)
        response.set_cookie(
            self._cookie,
            _secret(self._token or ""),
            httponly=True,
            samesite="strict",
            path="/",
            secure=scope["scheme"] == "https",
        )
        return response


def is_harmless(host: str, names: frozenset[str]) -> bool:
    """Tell whether a Host header names no domain that somebody else could own.

    >>> is_harmless("127.0.0.1:8750", frozenset()), is_harmless("[::1]:8750", frozenset())
    (True, True)
    >>> is_harmless("evil.example:8750", frozenset({"localhost"})), is_harmless("localhost", frozenset({"localhost"}))
    (False, True)
    """
    parts = _HOST.fullmatch(host)
    if parts is None:
        return False
    name = parts["address"] or parts["name"]
    if name.lower() in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def names_here(host: str) -> frozenset[str]:
    """Return what a server that listens at a host may be called besides: as that host, and as this machine."""
    own = socket.gethostname().lower()
    return frozenset({host.lower(), own, own.partition(".")[0], f"{own.partition('.')[0]}.local"})


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a host.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def cookie_name(token: str) -> str:
    """Return what the cookie is called: two servers of one machine share its cookies, and do not overwrite them."""
    return f"steadfed-{hashlib.sha256(b'name ' + token.encode()).hexdigest()[:8]}"


def _secret(token: str) -> str:
    """Return what the cookie holds: not the token, which may have letters that a cookie may not."""
    return hashlib.sha256(b"secret " + token.encode()).hexdigest()


def _same(shown: str, token: str) -> bool:
    return hmac.compare_digest(shown.encode(errors="replace"), token.encode(errors="replace"))
