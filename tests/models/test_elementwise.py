"""Functions of single numbers: right, and with the same bits wherever in a tensor a number stands."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import steadfed
from steadfed._core.rng import stream
from steadfed.models._elementwise import sigmoid
from steadfed.models._losses import Logistic

pytestmark = pytest.mark.portable

LENGTHS = range(1, 71)
"""From less than one vector to more than four of the longest, which hold 16 numbers of float32."""
OFFSETS = (0, 1, 3, 8, 16, 17)
DTYPES = [torch.float32, torch.float64]


def numbers(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.from_numpy(stream(0, "elementwise", *shape).standard_normal(shape) * 5.0).to(dtype)


def slope(values: Tensor) -> Tensor:
    """Return the derivative of every point's logistic loss by its output, as the engines' autograd has it."""
    outputs = values.clone().requires_grad_()
    labels = torch.ones(len(values), dtype=torch.int64)
    return torch.autograd.grad(Logistic().mean(outputs[:, None], labels) * len(values), outputs)[0]


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": sigmoid,
    "logsigmoid": functional.logsigmoid,
    "exp": torch.exp,
    "tanh": torch.tanh,
    "reciprocal": torch.reciprocal,
    "step": lambda values: (2.7 * values).add_(values, alpha=-0.05),
    "difference": lambda values: (0.3 - values) / 0.05,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_bits_of_a_number_do_not_depend_on_its_place(name: str, dtype: torch.dtype) -> None:
    values, function = numbers(100, dtype=dtype), FUNCTIONS[name]
    whole = function(values)
    for length in LENGTHS:
        for offset in OFFSETS:
            part = values[offset : offset + length]
            assert torch.equal(function(part), whole[offset : offset + length]), (length, offset)
            assert torch.equal(function(part.clone()), whole[offset : offset + length]), (length, offset)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("num_classes", [2, 3, 10, 17])
def test_the_softmax_of_a_client_does_not_depend_on_its_company(num_classes: int, dtype: torch.dtype) -> None:
    for points in (1, 3, 7, 8, 15, 16, 17, 31, 32, 33, 48):
        outputs = numbers(7, num_classes, points, dtype=dtype)
        whole, sums = outputs.softmax(1), outputs.sum(2)
        for first in range(7):
            for last in range(first + 1, 8):
                some = outputs[first:last]
                assert torch.equal(some.softmax(1), whole[first:last]), (points, first, last)
                assert torch.equal(some.clone().softmax(1), whole[first:last]), (points, first, last)
                assert torch.equal(some.sum(2), sums[first:last]), (points, first, last)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 3e-7), (torch.float64, 1e-15)])
def test_sigmoid_is_its_formula_from_tail_to_tail(dtype: torch.dtype, tolerance: float) -> None:
    values = torch.linspace(-80.0, 80.0, 333, dtype=dtype)
    expected = [math.exp(z) / (1.0 + math.exp(z)) if z < 0 else 1.0 / (1.0 + math.exp(-z)) for z in values.tolist()]
    assert sigmoid(values).dtype == dtype
    assert sigmoid(values).tolist() == pytest.approx(expected, rel=tolerance, abs=0.0)
    assert sigmoid(torch.tensor([-1e30, 1e30, -torch.inf, torch.inf], dtype=dtype)).tolist() == [0.0, 1.0, 0.0, 1.0]


def test_sigmoid_leaves_its_input_alone() -> None:
    values = numbers(20, dtype=torch.float32)
    before = values.clone()
    sigmoid(values)
    assert torch.equal(values, before)


def test_the_slope_of_the_logistic_loss_is_sigmoid_minus_one() -> None:
    values = torch.cat([torch.zeros(1, dtype=torch.float64), torch.linspace(-900.0, 900.0, 41, dtype=torch.float64)])
    torch.testing.assert_close(slope(values), sigmoid(values) - 1.0, rtol=1e-14, atol=1e-15)
    assert slope(values)[0].item() == -0.5


def test_the_curvature_of_the_logistic_loss_is_that_of_its_formula() -> None:
    values = torch.linspace(-30.0, 30.0, 13, dtype=torch.float64)
    label = torch.ones((), dtype=torch.int64)

    def loss(value: Tensor) -> Tensor:
        return Logistic().mean(value[None], label)

    found = torch.func.vmap(torch.func.grad(torch.func.grad(loss)))(values)
    torch.testing.assert_close(found, sigmoid(values) * sigmoid(-values), rtol=1e-12, atol=1e-16)


ROUNDED_BY_PLACE = {
    *("sigmoid", "expit", "softplus", "silu", "gelu", "elu", "selu", "celu", "mish"),
    *("sinh", "cosh", "exp2", "logaddexp", "logaddexp2"),
}
"""Functions of torch of which a vector and a single number are rounded differently."""


def test_no_source_calls_a_function_whose_bits_depend_on_the_place() -> None:
    package = Path(steadfed.__file__).parent
    found = [
        f"{path.relative_to(package)}:{node.lineno}: {ast.unparse(node)}"
        for path in sorted(package.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr.rstrip("_") in ROUNDED_BY_PLACE
    ]
    assert [each for each in found if " np." not in each] == []
