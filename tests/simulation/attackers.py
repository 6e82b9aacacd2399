"""Attacks that users might write: one that must see honest rows, one that remembers, one that is asked what it saw."""

from __future__ import annotations

from typing import ClassVar, final

import torch

from steadfed.attacks import AdversaryView, Attack, Forged, Knowledge
from steadfed.attacks._base import same_for_all, sent_by_all


@final
class Copycat(Attack):
    """Send what the first honest client sends."""

    citation: ClassVar[str] = "a test"
    needs: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HONEST})

    def forge(self, view: AdversaryView) -> Forged:
        return sent_by_all(same_for_all(view.honest[0], view))


@final
class Counter(Attack):
    """Send how often one has attacked, in every coordinate; must see honest rows."""

    citation: ClassVar[str] = "a test"
    needs: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HONEST})

    def forge(self, view: AdversaryView) -> Forged:
        count = view.memory.get("count", torch.zeros(1)) + 1.0
        return sent_by_all(torch.full_like(view.own_rows, float(count)), {"count": count})
