"""Every attack that steadfed and a peer both have, with the reason of every difference."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from benchmarks.pairs import SEED, Cloud, Pair, byzfl_forged, forged, same
from steadfed.attacks import (
    ALittleIsEnough,
    Gaussian,
    Infinite,
    InnerProductManipulation,
    Mimic,
    ReversedGradient,
    SignFlip,
)

Z = 1.5
"""byzfl's default for a little is enough."""


def on_the_other_side(cloud: Cloud) -> Tensor:
    """Return a little is enough, reflected in the mean, with the standard deviation divided by n − 1."""
    honest = cloud.view.honest
    factor = np.sqrt(len(honest) / (len(honest) - 1))
    return 2.0 * honest.mean(0) - ALittleIsEnough(z=Z * factor)(cloud.view).rows


def mimic_equations(cloud: Cloud) -> Iterator[tuple[Tensor, Tensor]]:
    """Say that only the client that is copied differs."""
    copied = forged(Mimic())(cloud)
    chosen = int((cloud.view.honest == copied[0]).all(1).nonzero()[0])
    yield copied, byzfl_forged(lambda peer: peer.Mimic(epsilon=chosen))(cloud)


def their_noise(cloud: Cloud) -> Tensor:
    """Return steadfed's formula with one draw of byzfl's generator for all clients."""
    draw = torch.randn(cloud.rows.shape[1], generator=torch.Generator().manual_seed(SEED))
    return (0.5 + 3.0 * draw).expand(cloud.f, -1)


byzfl_flip = byzfl_forged(lambda peer: peer.SignFlipping())
byzfl_alie = byzfl_forged(lambda peer: peer.ALittleIsEnough(tau=Z))
byzfl_noise = byzfl_forged(lambda peer: peer.Gaussian(mu=0.5, sigma=3.0))

ATTACKS: tuple[Pair, ...] = (
    Pair(
        "SignFlip",
        "byzfl SignFlipping",
        forged(SignFlip()),
        byzfl_flip,
        smallest=1,
        why="byzfl sends minus the mean of the honest rows for all, steadfed turns round each client's own row",
        equations=same(forged(ReversedGradient(factor=1.0)), byzfl_flip),
    ),
    Pair(
        "ReversedGradient, factor 1", "byzfl SignFlipping", forged(ReversedGradient(factor=1.0)), byzfl_flip, smallest=1
    ),
    Pair(
        "InnerProductManipulation, ε = τ",
        "byzfl InnerProductManipulation",
        forged(InnerProductManipulation(epsilon=2.0)),
        byzfl_forged(lambda peer: peer.InnerProductManipulation(tau=2.0)),
        smallest=1,
    ),
    Pair(
        "ALittleIsEnough, z = τ",
        "byzfl ALittleIsEnough",
        forged(ALittleIsEnough(z=Z)),
        byzfl_alie,
        smallest=1,
        why="byzfl adds τ times the deviation divided by n − 1, steadfed subtracts τ times that divided by n",
        equations=same(on_the_other_side, byzfl_alie),
    ),
    Pair(
        "Mimic",
        "byzfl Mimic",
        forged(Mimic()),
        byzfl_forged(lambda peer: peer.Mimic()),
        smallest=1,
        why="byzfl copies the client it is told (the first), steadfed the farthest along the largest honest spread",
        equations=mimic_equations,
    ),
    Pair("Infinite", "byzfl Inf", forged(Infinite()), byzfl_forged(lambda peer: peer.Inf()), smallest=1),
    Pair(
        "Gaussian",
        "byzfl Gaussian",
        forged(Gaussian(mean=0.5, std=3.0)),
        byzfl_noise,
        smallest=1,
        single=True,
        why="byzfl draws one row for all Byzantine clients, steadfed one for each, from another generator",
        equations=same(their_noise, byzfl_noise),
    ),
)
