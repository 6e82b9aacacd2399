"""The letters of a picture lie in it: an SVG that names a font shows another one where that is not installed."""

from __future__ import annotations

import base64
import html
import io
import re
from functools import lru_cache
from pathlib import Path

_FACES = {"normal": "DejaVuSans.ttf", "bold": "DejaVuSans-Bold.ttf"}
"""The fonts that matplotlib brings along, by their weight."""
_UNUSED = ["FFTM", "GDEF", "GPOS", "GSUB", "kern"]
"""Tables that nobody needs to show letters one by one."""
_ELEMENT = re.compile(rb"<text\b([^>]*)>(.*?)</text>", re.DOTALL)
_MARKUP = re.compile(r"<[^>]*>")


def with_fonts(content: bytes) -> bytes:
    """Return an SVG with those letters of its fonts in it that it shows, as rules of a style sheet."""
    shown: dict[str, set[str]] = {weight: set() for weight in _FACES}
    for attributes, inside in _ELEMENT.findall(content):
        weight = "bold" if re.search(rb"font-weight: (bold|700)", attributes) else "normal"
        shown[weight] |= set(html.unescape(_MARKUP.sub("", inside.decode())))
    rules = "".join(_rule(weight, "".join(sorted(letters))) for weight, letters in shown.items() if letters)
    return content.replace(b"</defs>", f'<style type="text/css">{rules}</style>\n </defs>'.encode(), 1)


@lru_cache(maxsize=64)
def _rule(weight: str, letters: str) -> str:
    data = base64.b64encode(_subset(weight, letters)).decode()
    return (
        f'@font-face{{font-family:"DejaVu Sans";font-weight:{weight};'
        f'src:url("data:font/ttf;base64,{data}") format("truetype")}}'
    )


def _subset(weight: str, letters: str) -> bytes:
    """Return a font with these letters alone; those that it has not are left to the reader's fonts."""
    from fontTools.subset import Options, Subsetter
    from fontTools.ttLib import TTFont

    options = Options(
        drop_tables=_UNUSED, hinting=False, notdef_outline=True, name_IDs=[0, 1, 2], recalc_timestamp=False
    )
    font = TTFont(_file(weight), recalcTimestamp=False)
    subsetter = Subsetter(options)
    subsetter.populate(text=letters)
    subsetter.subset(font)
    target = io.BytesIO()
    font.save(target)
    return target.getvalue()


def _file(weight: str) -> Path:
    import matplotlib as mpl

    return Path(mpl.get_data_path()) / "fonts" / "ttf" / _FACES[weight]
