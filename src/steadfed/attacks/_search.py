"""How attackers that try things out look for a strength, a direction and how they stand along it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from steadfed.attacks._geometry import Shape, finite_rows, random_directions
from steadfed.attacks._view import AdversaryView

GRID_POINTS = 14
"""Strengths tried first, in geometric progression."""
PRECISION = 5e-3
"""Relative precision of a bisection."""
REFINEMENTS = 8
"""Strengths tried between the neighbours of the best of them."""
AROUND = 1.2
"""The cliff is looked for between the best strength so far over this and times this."""
CLIFFS = 3
"""How many of the profiles that are best on the grid are followed to their cliffs."""
NEAREST, FARTHEST = 0.25, 4.0
"""The grid reaches from this multiple of the honest spread σ₀ to this multiple of an honest row's distance to the mean.

A row beyond is farther out than all honest ones, and every rule but the mean sees it."""

Profile = Float[Tensor, " f"]
"""How far out every colluder stands along one direction, in units of a strength."""
Damage = Callable[[float, Profile], float]
"""What a rule suffers, as a function of strength and profile."""


def most_damaging(damage: Callable[[float], float], nearest: float, farthest: float) -> float:
    """Return the strength with the largest damage on a geometric grid and between the best one's neighbours."""
    grid = np.geomspace(nearest, farthest, GRID_POINTS)
    hurt = [damage(float(at)) for at in grid]
    best = int(np.argmax(hurt))
    inner = np.geomspace(grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)], REFINEMENTS + 2)[1:-1]
    tried = [*zip(hurt, grid, strict=True), *((damage(float(at)), at) for at in inner)]
    return float(max(tried)[1])


def up_to_the_cliff(damage: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Return the largest damage found and its strength, by bisection to where damage stops growing with strength."""
    most = damage(low)
    best = (most, low)
    while high - low > PRECISION * low:
        middle = (low + high) / 2.0
        hurt = damage(middle)
        best = max(best, (hurt, middle))
        low, high = (middle, high) if hurt >= most else (low, middle)
        most = max(most, hurt)
    return best


def largest_allowed(allowed: Callable[[float], bool], nearest: float, farthest: float) -> float:
    """Return the largest strength that is allowed, by bisection from 0, which is, to `farthest`, which is not."""
    low, high = 0.0, farthest
    while high - low > PRECISION * max(low, nearest):
        middle = (low + high) / 2.0
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return low


def best_profile(
    damage: Damage, profiles: Iterable[Profile], reach: tuple[float, float]
) -> tuple[float, float, Profile]:
    """Return the largest damage found, its strength and its profile, the last of equally good ones.

    The strength of the first profile is looked for on a grid and up to the cliff, that of the others around there.
    """
    found: list[tuple[float, float, Profile]] = []
    for profile in profiles:
        hurt = _of_strength(damage, profile)
        start = found[0][1] if found else most_damaging(hurt, *reach)
        found.append((*up_to_the_cliff(hurt, start / AROUND, start * AROUND), profile))
    return max(reversed(found), key=lambda each: each[0])


def best_on_grid(damage: Damage, profiles: Sequence[Profile], reach: tuple[float, float]) -> tuple[float, Profile]:
    """Return the strength and the profile with the largest damage found.

    All profiles are tried on a grid of strengths; those best on it, from there up to the cliff or the next strength.
    """
    grid = np.geomspace(*reach, GRID_POINTS + 1)
    hurt = np.array([[damage(float(at), profile) for at in grid[:-1]] for profile in profiles])
    found: list[tuple[float, float, Profile]] = []
    for index in np.argsort(-hurt.max(axis=1), kind="stable")[:CLIFFS]:
        profile, best = profiles[index], int(hurt[index].argmax())
        found.append((*up_to_the_cliff(_of_strength(damage, profile), *grid[best : best + 2].tolist()), profile))
    _, strength, profile = max(found, key=lambda each: each[0])
    return strength, profile


def _of_strength(damage: Damage, profile: Profile) -> Callable[[float], float]:
    return lambda at: damage(at, profile)


def along(
    centre: Float[Tensor, "f m"], towards: Float[Tensor, "1 m"], at: float, profile: Profile
) -> Float[Tensor, "f m"]:
    """Return the rows moved along one direction, each as far as its entry of the profile says in units of `at`."""
    return centre + (at * profile)[:, None].to(centre) * towards


def reach_along(shape: Shape, direction: Float[Tensor, "f m"]) -> tuple[float, float]:
    """Return the smallest and the largest strength worth trying along a direction."""
    norm = float(torch.linalg.vector_norm(direction, dim=1).max())
    length = norm if 0.0 < norm < np.inf else 1.0
    scale = shape.sigma0 or float(torch.linalg.vector_norm(shape.mean)) or 1.0
    return NEAREST * scale / length, max(FARTHEST * shape.radius, 2.0 * NEAREST * scale) / length


def tried_directions(shape: Shape, number: int, view: AdversaryView) -> Float[Tensor, "k d"]:
    """Return unit directions: against the mean, the largest spread, honest rows seen from their mean, random ones."""
    generator = view.generator("directions")
    rows = finite_rows(view.seen)
    some = rows[torch.from_numpy(generator.permutation(len(rows))[: number // 2])]
    chance = random_directions(generator, number - len(some), rows.shape[1])
    directions = torch.cat([-shape.mean[None], shape.direction[None], (some - shape.mean), chance.to(shape.mean)])
    norms = torch.linalg.vector_norm(directions, dim=1, keepdim=True)
    return torch.where(norms > 0, directions / torch.where(norms > 0, norms, 1.0), chance[-1].to(directions))
