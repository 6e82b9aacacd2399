"""Formulas that a report may show above its words, by name.

    page/formulas.json ──► text for terminals, TeX, and MathML, which browsers draw without a script or a font

The MathML is made of the TeX by `node docs/katex/mathml.js`. None of it comes from a run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import final

_FILE = Path(__file__).with_name("page") / "formulas.json"


@final
@dataclass(frozen=True, kw_only=True)
class Formula:
    """One formula, for whoever shows it."""

    text: str
    tex: str
    mathml: str


@cache
def formulas() -> Mapping[str, Formula]:
    """Return all formulas by their names.

    >>> formulas()["gradient"].text
    '(1/N) Σ_{k<N} E‖∇F(x_k)‖² ≤ 2(F(x_0) − F*)/(ηHN) + c s²/H²'
    """
    return {name: Formula(**texts) for name, texts in json.loads(_FILE.read_text(encoding="utf-8")).items()}
