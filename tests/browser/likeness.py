"""Whether a picture of a page looks like the one that was kept of it."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.browser.conftest import Visit

PICTURES = Path(__file__).parent / "pictures"
RENEW = "NEW_PICTURES"
"""With this variable pictures are taken instead of compared; look at them before they are committed."""
_LETTERS = PICTURES / "letters.json"
_BLOCK = 4
"""Pictures are compared in blocks of so many pixels squared: the edges of letters differ, what is drawn does not."""
_VISIBLE = 24
"""The least difference of two blocks that the eye sees, of 255."""
MOST = 0.01
"""The share of blocks that may differ."""


def check_likeness(name: str, picture: bytes, place: Path) -> None:
    """Compare a picture with the one of this name that was kept, or keep it; leave it at `place` if they differ."""
    kept = PICTURES / f"{name}.png"
    if os.environ.get(RENEW):
        kept.parent.mkdir(exist_ok=True)
        kept.write_bytes(picture)
        return
    share = unlike(kept.read_bytes(), picture)
    if share > MOST:
        found = place / f"{name}.png"
        found.write_bytes(picture)
        pytest.fail(
            f"{100 * share:.1f} % of {found} do not look like {kept}; if it should: {RENEW}=1 make test-browser"
        )


def check_letters(visit: Visit) -> None:
    """Skip the test if the letters of this machine are not those of the pictures, as all lines break elsewhere."""
    here = _letters(visit)
    if os.environ.get(RENEW):
        _LETTERS.parent.mkdir(exist_ok=True)
        _LETTERS.write_text(json.dumps(here, indent=2) + "\n", encoding="utf-8")
        return
    kept = json.loads(_LETTERS.read_text(encoding="utf-8"))
    if here != kept:
        pytest.skip(f"the letters of this machine are {here} pixels wide, those of the pictures {kept}")


def _letters(visit: Visit) -> dict[str, Any]:
    """Return how wide a text is in the two fonts of the pages."""
    return visit.page.evaluate(  # type: ignore[no-any-return]
        """() => Object.fromEntries(['--font', 'monospace'].map((font) => {
            const pen = document.createElement('canvas').getContext('2d');
            const family = getComputedStyle(document.documentElement).getPropertyValue(font) || font;
            pen.font = `100px ${family}`;
            return [font.replace('--font', 'text'), Math.round(pen.measureText('Hamburgefonts 0.1 ± é ◆').width)];
        }))"""
    )


def unlike(one: bytes, other: bytes) -> float:
    """Return the share of blocks in which two pictures differ visibly; 1 if one is larger than the other."""
    first, second = _blocks(one), _blocks(other)
    if first.shape != second.shape:
        return 1.0
    return float((np.abs(first - second).max(axis=2) > _VISIBLE).mean())


def _blocks(picture: bytes) -> NDArray[np.float64]:
    image = pytest.importorskip("PIL.Image")
    pixels = np.asarray(image.open(io.BytesIO(picture)).convert("RGB"), dtype=np.float64)
    rows, columns = (length // _BLOCK for length in pixels.shape[:2])
    cut = pixels[: rows * _BLOCK, : columns * _BLOCK]
    means: NDArray[np.float64] = cut.reshape(rows, _BLOCK, columns, _BLOCK, 3).mean(axis=(1, 3))
    return means
