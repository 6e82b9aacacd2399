"""Where each parameter and buffer of a module lies in a flat row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from steadfed.errors import DataError


@dataclass(frozen=True)
class TensorSlot:
    """One tensor's place in a row.

    Weights of two-dimensional convolutions lie output × height × width × input, so that the view of them is
    channels-last, which is what convolutions on a CPU are fastest with; everything else lies as it is.
    """

    name: str
    shape: tuple[int, ...]
    offset: int

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return torch.Size(self.shape).numel()

    def view(self, rows: Tensor) -> Tensor:
        """Return the tensor as a view of one row, or the tensors of many rows stacked."""
        flat = rows[..., self.offset : self.offset + self.size]
        if len(self.shape) != 4:
            return flat.view((*rows.shape[:-1], *self.shape))  # a tuple, which may be empty
        outputs, inputs, height, width = self.shape
        return flat.view(*rows.shape[:-1], outputs, height, width, inputs).movedim(-1, -3)


@dataclass(frozen=True)
class Layout:
    """The parameters of a module in one row of length d, and its floating-point buffers in another of length m.

    >>> layout = Layout.of(nn.Linear(3, 2))
    >>> layout.dim, [(place.name, place.offset) for place in layout.parameters]
    (8, [('weight', 0), ('bias', 6)])
    """

    parameters: tuple[TensorSlot, ...]
    buffers: tuple[TensorSlot, ...]

    @classmethod
    def of(cls, module: nn.Module) -> Layout:
        """Return the layout of a module, tensors in the order of the module."""
        parameters = dict(module.named_parameters())
        frozen = [name for name, parameter in parameters.items() if not parameter.requires_grad]
        if frozen or not parameters:
            what = f"the parameters {', '.join(frozen)} are frozen" if frozen else "it has no parameters"
            raise DataError(f"every parameter of a model must be trainable, and there must be some: {what}")
        buffers = {name: each for name, each in module.named_buffers() if each.is_floating_point()}
        return cls(_places(parameters), _places(buffers))

    @property
    def dim(self) -> int:
        """The number of parameters d."""
        return sum(place.size for place in self.parameters)

    @property
    def buffer_dim(self) -> int:
        """The number of floating-point buffer entries m."""
        return sum(place.size for place in self.buffers)

    def parameter_views(self, rows: Tensor) -> dict[str, Tensor]:
        """Return every parameter as a view of a row, or stacked over rows."""
        return {place.name: place.view(rows) for place in self.parameters}

    def buffer_views(self, rows: Tensor) -> dict[str, Tensor]:
        """Return every floating-point buffer as a view of a row, or stacked over rows."""
        return {place.name: place.view(rows) for place in self.buffers}

    def parameters_of(self, module: nn.Module, dtype: torch.dtype) -> Float[Tensor, " d"]:
        """Return the parameters of a module as one new vector."""
        return _flatten(self.parameters, dict(module.named_parameters()), dtype)

    def buffers_of(self, module: nn.Module, dtype: torch.dtype) -> Float[Tensor, " m"]:
        """Return the floating-point buffers of a module as one new vector."""
        return _flatten(self.buffers, dict(module.named_buffers()), dtype)

    @torch.no_grad()
    def load(self, module: nn.Module, parameters: Float[Tensor, " d"], buffers: Float[Tensor, " m"]) -> None:
        """Copy a row of parameters and one of buffers into a module."""
        for names, views in (
            (dict(module.named_parameters()), self.parameter_views(parameters)),
            (dict(module.named_buffers()), self.buffer_views(buffers)),
        ):
            for name, view in views.items():
                names[name].copy_(view)


def _places(tensors: Mapping[str, Tensor]) -> tuple[TensorSlot, ...]:
    offset, places = 0, []
    for name, tensor in tensors.items():
        places.append(TensorSlot(name, tuple(tensor.shape), offset))
        offset += tensor.numel()
    return tuple(places)


@torch.no_grad()
def _flatten(places: Iterable[TensorSlot], tensors: Mapping[str, Tensor], dtype: torch.dtype) -> Tensor:
    places = tuple(places)
    flat = torch.empty(sum(place.size for place in places), dtype=dtype)
    for place in places:
        place.view(flat).copy_(tensors[place.name])
    return flat
