"""Visitors of the live page, without a network."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx

from steadfed._ui.app import create_app


def visit(app: Any, path: str, *, host: str = "127.0.0.1:8750", method: str = "GET", **headers: str) -> httpx.Response:
    """Return what the app answers; header names are written with underscores."""

    async def asked() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8750") as client:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return await client.request(method, path, headers={"host": host, **named})

    return asyncio.run(asked())


def app_over(folder: Path, **options: Any) -> Any:
    """Return the app, which looks at the disk whenever somebody asks."""
    return create_app(folder, patience=0, **options)
