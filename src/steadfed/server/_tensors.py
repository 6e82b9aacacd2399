"""Named tensors as bytes, in the format safetensors: nothing in it is executed, equal tensors give equal bytes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from steadfed.errors import CorruptRunError, ParameterError
from steadfed.server._stored import escaped_name, plain_name


def to_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Return the tensors as the content of a safetensors file.

    Tensors with gaps, in shared memory or on another device are copied. The bytes depend on names, shapes, dtypes
    and values only, not on the order of the mapping.

    >>> memory = torch.arange(6.0)
    >>> content = to_bytes({"rule/a b": memory[::2], "model": memory})
    >>> content == to_bytes({"model": memory, "rule/a b": memory[::2].clone()})
    True
    >>> from_bytes(content)["rule/a b"]
    tensor([0., 2., 4.])
    """
    plain: dict[str, Tensor] = {}
    taken: set[int] = set()
    for name in sorted(tensors):
        tensor = _to_plain(name, tensors[name])
        place = tensor.untyped_storage().data_ptr()
        plain[escaped_name(name)] = tensor.clone() if place in taken else tensor  # the format refuses shared memory
        taken.add(place)
    try:
        return save(plain)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        dtypes = sorted({str(tensor.dtype) for tensor in tensors.values()})
        raise ParameterError(
            f"tensors of the types {', '.join(dtypes)} cannot be written as safetensors: {error}"
        ) from None


def from_bytes(content: bytes) -> dict[str, Tensor]:
    """Return the tensors that the content of a safetensors file holds; `CorruptRunError` if it is none."""
    try:
        return {plain_name(name): tensor for name, tensor in load(content).items()}
    except (SafetensorError, KeyError, ValueError) as error:
        raise CorruptRunError(f"no safetensors file: {error}") from None


def _to_plain(name: str, tensor: Tensor) -> Tensor:
    """Return the tensor dense, contiguous and in main memory, without a copy where it is so already."""
    if not isinstance(tensor, Tensor) or tensor.layout is not torch.strided or tensor.device.type == "meta":
        what = f"{tensor.layout} on {tensor.device}" if isinstance(tensor, Tensor) else type(tensor).__name__
        raise ParameterError(f"{name!r} must be a dense tensor with values, got {what}")
    return tensor.detach().cpu().contiguous()
