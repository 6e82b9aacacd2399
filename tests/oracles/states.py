"""What aggregating state dicts means, written down one client and one array at a time, in double precision."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatch
from typing import Any

import torch
from torch import Tensor

from steadfed.aggregators import Aggregator, ServerView


def aggregated(
    reference: Mapping[str, Tensor],
    replies: Mapping[str, Mapping[str, Tensor]],
    rule: Aggregator,
    *,
    kind: str = "weights",
) -> dict[str, Any]:
    """Return the new model of replies that are all models; the rule is given one concatenated row of each client."""
    patterns = ("*running_mean", "*running_var", "*num_batches_tracked")
    trained = [
        name
        for name, value in reference.items()
        if value.is_floating_point() and not any(fnmatch(name, pattern) for pattern in patterns)
    ]
    wide = torch.float64 if any(reference[name].dtype == torch.float64 for name in trained) else torch.float32
    rows = []
    for client in sorted(replies):
        parts = []
        for name in trained:
            sent = replies[client][name].to(wide)
            parts.append((reference[name].to(wide) - sent if kind == "weights" else -sent).reshape(-1))
        rows.append(torch.cat(parts))
    update = rule(torch.stack(rows), ServerView(clients=sorted(replies), secret=7)).update.double()
    new = {}
    for name, value in reference.items():
        if name in trained:
            new[name] = (value.double() - update[: value.numel()].reshape(value.shape)).to(value.dtype)
            update = update[value.numel() :]
            continue
        sent = torch.stack([reply[name] for reply in replies.values()])
        if kind == "difference":
            sent = sent + value
        ordered = sent.sort(dim=0).values
        low, high = ordered[(len(sent) - 1) // 2], ordered[len(sent) // 2]
        new[name] = (low + high) / 2 if value.is_floating_point() else low
    return new
