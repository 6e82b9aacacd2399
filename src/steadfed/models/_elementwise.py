"""Functions of single numbers whose bits do not depend on where in a tensor the number stands.

Torch computes the bulk of a tensor with vector instructions and what is left over, fewer numbers than two vectors, one
by one. Of some functions the two ways round differently: of `sigmoid`, `softplus`, `silu`, `gelu`, `elu`, `selu`,
`celu`, `mish`, `sinh`, `cosh`, `exp2`, `logaddexp` and most powers. A client's numbers would then depend on who stands
beside it in its chunk, and a run on the number of its worker processes. Of `exp`, `log`, `log1p`, `tanh`, `logsigmoid`,
of softmax and sums over the points of a client, and of what IEEE 754 rounds correctly, the bits are the same everywhere
on one thread.
"""

from __future__ import annotations

from torch import Tensor


def sigmoid(values: Tensor) -> Tensor:
    """Return σ(z) = 1 / (1 + exp(−z)) of every number, a new tensor; without gradients.

    The relative error is a few units in the last place for all z; where exp(−z) overflows, σ(z) is 0.

    >>> import torch
    >>> sigmoid(torch.tensor([0.0, 1e30, -1e30]))
    tensor([0.5000, 1.0000, 0.0000])
    """
    return values.neg().exp_().add_(1.0).reciprocal_()
