"""What may be asked of the theory: checks of plain numbers, each with the value and what is allowed."""

from __future__ import annotations

import math
from typing import Any

from steadfed._core.values import real_number, shown, whole_number
from steadfed.errors import ParameterError


def check_positive(name: str, value: Any) -> float:
    """Return a finite number above 0.

    >>> check_positive("smoothness", -1)
    Traceback (most recent call last):
    steadfed.errors.ParameterError: smoothness must be a finite number above 0, got -1
    """
    return check_between(name, value, 0.0, math.inf, "a finite number above 0", open_below=True)


def check_not_negative(name: str, value: Any) -> float:
    """Return a finite number of at least 0."""
    return check_between(name, value, 0.0, math.inf, "a finite number of at least 0")


def check_probability(name: str, value: Any) -> float:
    """Return a number strictly between 0 and 1."""
    return check_between(name, value, 0.0, 1.0, "a number strictly between 0 and 1", open_below=True, open_above=True)


def check_share(name: str, value: Any) -> float:
    """Return a number from 0 to 1."""
    return check_between(name, value, 0.0, 1.0, "a number from 0 to 1")


def check_whole(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """Return a whole number from `least` to `most`.

    >>> check_whole("cohort_size", 50, most=40)
    Traceback (most recent call last):
    steadfed.errors.ParameterError: cohort_size must be a whole number from 1 to 40, got 50
    """
    allowed = f"a whole number of at least {least}" if most is None else f"a whole number from {least} to {most}"
    try:
        number = int(whole_number(value))
    except ValueError:
        number = None
    if number is None or number < least or (most is not None and number > most):
        raise _refused(name, value, allowed)
    return number


def check_between(
    name: str, value: Any, low: float, high: float, allowed: str, *, open_below: bool = False, open_above: bool = False
) -> float:
    """Return a finite number from `low` to `high`; `allowed` is what to say otherwise."""
    try:
        number = float(real_number(value))
    except ValueError:
        number = math.nan
    below = number <= low if open_below else number < low
    above = number >= high if open_above else number > high
    if not math.isfinite(number) or below or above:
        raise _refused(name, value, allowed)
    return number


def check_curvatures(smoothness: Any, strong_convexity: Any) -> tuple[float, float]:
    """Return L > 0 and 0 < μ ≤ L.

    >>> check_curvatures(1.0, 2.0)
    Traceback (most recent call last):
    steadfed.errors.ParameterError: strong_convexity must be above 0 and at most smoothness = 1, got 2.0
    """
    big = check_positive("smoothness", smoothness)
    allowed = f"above 0 and at most smoothness = {big:g}"
    return big, check_between("strong_convexity", strong_convexity, 0.0, big, allowed, open_below=True)


def check_step_size(lr: Any, limit: float, reason: str) -> float:
    """Return η with 0 < η ≤ `limit`; `reason` is the limit as a formula."""
    allowed = f"above 0 and at most {reason} = {limit:.6g}"
    # A user who computed 1/(8HL) in another order of operations is not refused for the last bit.
    return check_between("lr", lr, 0.0, limit * (1.0 + 1e-12), allowed, open_below=True)


def check_cohort(cohort_size: Any, num_clients: Any) -> tuple[int, int]:
    """Return K and R with 1 ≤ K ≤ R."""
    clients = check_whole("num_clients", num_clients)
    return check_whole("cohort_size", cohort_size, most=clients), clients


def _refused(name: str, value: Any, allowed: str) -> ParameterError:
    return ParameterError(f"{name} must be {allowed}, got {shown(value)}")
