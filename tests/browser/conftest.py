"""A headless Chromium for tests of pages; they are skipped, with the reason, where there is none."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE = 120_000
"""Milliseconds that a page may take on a machine that does other things."""
OWN = ("file:", "data:", "blob:")
"""Where a page that is whole may look."""


@final
@dataclass(frozen=True)
class Visit:
    """A page in a browser, and what it did that it should not have done."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    """Errors and warnings on the console, and whatever a script threw."""
    dialogs: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    """Addresses that it asked for."""

    def watch(self) -> None:
        """Write down what happens from now on."""
        self.page.set_default_timeout(PATIENCE)
        self.page.on(
            "console",
            lambda said: (
                self.complaints.append(f"{said.text} ({said.location['url']})")
                if said.type in {"error", "warning", "trace"}
                else None
            ),
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda asked: None if asked.url.startswith(OWN) else self.outside.append(asked.url))

        def refuse(dialog: Any) -> None:
            self.dialogs.append(dialog.message)
            dialog.dismiss()

        self.page.on("dialog", refuse)

    def until(self, expression: str) -> None:
        """Wait until an expression holds; Playwright's own way evaluates strings in the page, which policies forbid."""
        end = time.monotonic() + PATIENCE / 1000
        while not self.page.evaluate(expression):
            assert time.monotonic() < end, f"waited in vain for {expression}"
            self.page.wait_for_timeout(50)

    def draw_everything(self) -> None:
        """Draw the plots that nobody has scrolled to, and wait for all of them."""
        self.page.evaluate("steadfed.drawAll()")
        self.until("steadfed.drawn === steadfed.plots")

    def assert_innocent(self) -> None:
        assert (self.complaints, self.dialogs, self.outside) == ([], [], [])


@final
@dataclass(frozen=True)
class Visitor:
    """Opens pages, each as if nobody had been there before."""

    browser: Browser

    @contextmanager
    def at(self, place: Path | str, *, width: int = 1280, dark: bool = False) -> Iterator[Visit]:
        """Open a file or an address."""
        context = self.browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            is_mobile=width < 600,
            has_touch=width < 600,
            reduced_motion="reduce",
        )
        visit = Visit(context.new_page())
        visit.watch()
        visit.page.goto(place.resolve().as_uri() if isinstance(place, Path) else place)
        try:
            yield visit
        finally:
            context.close()


@pytest.fixture(scope="session")
def visitor() -> Iterator[Visitor]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = shutil.which("chromium") or str(CHROMIUM)
    if not Path(found).is_file():
        pytest.skip(f"there is no chromium at {found}")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=list(ARGUMENTS))
        yield Visitor(browser)
        browser.close()
