"""Named tensors as bytes, in the format safetensors: nothing in it is executed, equal tensors give equal bytes."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, unquote

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from steadfed.errors import CorruptRunError, ParameterError

_RESERVED = "__metadata__"
"""The one name that the format keeps for itself."""


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
        plain[_escape(name)] = tensor.clone() if place in taken else tensor  # the format refuses shared memory
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
        return {unquote(name, errors="surrogatepass"): tensor for name, tensor in load(content).items()}
    except (SafetensorError, KeyError, ValueError) as error:
        raise CorruptRunError(f"no safetensors file: {error}") from None


def _escape(name: str) -> str:
    """Return a name that the format can hold: as in a web address, so that common names stay as they are.

    `quote` is undone by `unquote` for every string, lone surrogates included. It leaves underscores alone, so the name
    that stands for the reserved one is nobody else's.
    """
    quoted = quote(name, errors="surrogatepass")
    return quoted.replace("_", "%5F", 1) if quoted == _RESERVED else quoted


def _to_plain(name: str, tensor: Tensor) -> Tensor:
    """Return the tensor dense, contiguous and in main memory, without a copy where it is so already."""
    if not isinstance(tensor, Tensor) or tensor.layout is not torch.strided or tensor.device.type == "meta":
        what = f"{tensor.layout} on {tensor.device}" if isinstance(tensor, Tensor) else type(tensor).__name__
        raise ParameterError(f"{name!r} must be a dense tensor with values, got {what}")
    return tensor.detach().cpu().contiguous()
