"""A small model as a state dict, honest replies to it, and every way we know to send something that is none."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from steadfed._core.rng import stream

SECRET = 123.456789
"""A number that is in every bad reply, and may be in no message."""
State = dict[str, Any]
NAMES = [f"site-{place}" for place in range(8)]


def reference(dtype: torch.dtype = torch.float32) -> State:
    """Return a model with batch normalisation, as `state_dict` names it."""
    draw = stream(0, "states")
    return {
        "0.weight": torch.from_numpy(draw.standard_normal((4, 3))).to(dtype),
        "0.bias": torch.from_numpy(draw.standard_normal(4)).to(dtype),
        "1.weight": torch.ones(4, dtype=dtype),
        "1.running_mean": torch.zeros(4),
        "1.running_var": torch.ones(4),
        "1.num_batches_tracked": torch.tensor(5),
        "2.scale": torch.tensor(1.5, dtype=dtype),
    }


def honest(place: int, model: State | None = None) -> State:
    """Return what a client has after training: everything a little moved, its own way."""
    draw = stream(1, "states", place)

    def moved(value: Tensor) -> Tensor:
        if not value.is_floating_point():
            return value + 7 + place
        step = torch.from_numpy(draw.standard_normal(tuple(value.shape))) if value.ndim else torch.tensor(0.5)
        return (value.double() + 0.01 * (1 + step.abs())).to(value.dtype)

    return {name: moved(value) for name, value in (model or reference()).items()}


def replies(model: State | None = None, names: list[str] = NAMES) -> dict[str, State]:
    """Return one honest reply of every client."""
    return {name: honest(place, model) for place, name in enumerate(names)}


class HostileTensor(Tensor):
    """A tensor that does something else than what it is asked for."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"ha, {SECRET}")


class LyingTensor(Tensor):
    """A tensor that says it is whatever it is asked whether it is."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return torch.zeros(4, 3).as_subclass(cls) if func is Tensor.detach else True


class LyingArray(np.ndarray[Any, Any]):
    """An array whose shape is another whenever it is asked for."""

    def __getattribute__(self, name: str) -> Any:
        return (4, 3) if name == "shape" else super().__getattribute__(name)


class LazyTensor:
    """What engines send in place of large tensors: it is fetched when it is asked for."""

    def materialize(self) -> Tensor:
        raise RuntimeError(f"the file is gone, {SECRET}")


class HostileMapping(Mapping[str, Any]):
    """A dict that raises when it is read."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def __getitem__(self, name: str) -> Any:
        raise KeyError(f"no {name}, {SECRET}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return 0


class EndlessMapping(HostileMapping):
    """A dict that never ends."""

    def __iter__(self) -> Iterator[str]:
        number = 0
        while True:
            yield str(number)
            number += 1


class HostileName(str):
    """A name that equals every other."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise ValueError(SECRET)

    def __hash__(self) -> int:
        return hash("0.weight")


class Unclassed:
    """It fails where it is asked what it is."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"my numbers are {SECRET}")


class Sized:
    """No mapping, but it looks a little like one."""

    def keys(self) -> list[str]:
        return list(reference())

    def __getitem__(self, name: str) -> Tensor:
        return torch.full((4, 3), SECRET)

    def copy(self) -> Self:
        return self


def quietly(make: Callable[[], Tensor]) -> Tensor:
    """Return a tensor of a kind that torch warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


def inference() -> Tensor:
    with torch.inference_mode():
        return torch.full((4, 3), SECRET)


def freed() -> Tensor:
    """Return a tensor whose memory was given back."""
    value = torch.full((4, 3), SECRET)
    value.untyped_storage().resize_(0)
    return value


def shortened() -> Tensor:
    """Return a tensor whose memory ends before its last number."""
    value = torch.full((4, 3), SECRET)
    value.untyped_storage().resize_(44)
    return value


def disguised() -> Tensor:
    """Return a tensor whose memory was given back, on which hang functions that say something else."""
    value = freed()
    vars(value).update(numel=lambda: 0, detach=lambda: torch.zeros(4, 3), storage_offset=lambda: 0)
    return value


def _weight(make: Callable[[], Any]) -> Callable[[State], Any]:
    return lambda good: {**good, "0.weight": make()}


def _with(name: str, value: Any) -> Callable[[State], Any]:
    return lambda good: {**good, name: value}


_FULL = torch.full((4, 3), SECRET)
BAD: dict[str, tuple[str, Callable[[State], Any]]] = {
    "none": ("garbage", lambda _: None),
    "a number": ("garbage", lambda _: SECRET),
    "a text": ("garbage", lambda _: "model"),
    "a list of arrays": ("garbage", lambda good: list(good.values())),
    "pairs": ("garbage", lambda good: list(good.items())),
    "a tensor": ("garbage", lambda _: _FULL),
    "a module": ("garbage", lambda _: nn.Linear(3, 4)),
    "something with keys": ("garbage", lambda _: Sized()),
    "a class": ("garbage", lambda _: dict),
    "no class to be told": ("garbage", lambda _: Unclassed()),
    "empty": ("keys", lambda _: {}),
    "a missing array": ("keys", lambda good: {name: good[name] for name in good if name != "0.bias"}),
    "a missing counter": ("keys", lambda good: {name: good[name] for name in good if "tracked" not in name}),
    "an extra array": ("keys", _with("extra", _FULL)),
    "many extra arrays": ("keys", lambda good: good | {str(number): _FULL for number in range(5000)}),
    "other names": ("keys", lambda good: {f"module.{name}": value for name, value in good.items()}),
    "a name of a megabyte": ("keys", _with("x" * 10**6, _FULL)),
    "a tensor for a name": ("keys", lambda good: {**good, _FULL: _FULL}),
    "bytes for a name": ("keys", lambda good: {**good, b"0.weight": _FULL}),
    "a hostile name": ("garbage", lambda good: {HostileName("0.weight"): _FULL, **dict([*good.items()][1:])}),
    "a hostile dict": ("garbage", lambda good: HostileMapping(list(good))),
    "an endless dict": ("keys", lambda _: EndlessMapping([])),
    "another shape": ("shape", _weight(lambda: torch.full((3, 4), SECRET))),
    "one number for all": ("shape", _weight(lambda: torch.tensor(SECRET))),
    "a shape that could be stretched": ("shape", _weight(lambda: torch.full((1, 3), SECRET))),
    "one axis more": ("shape", _weight(lambda: torch.full((1, 4, 3), SECRET))),
    "flattened": ("shape", _weight(lambda: torch.full((12,), SECRET))),
    "no numbers": ("shape", _weight(lambda: torch.empty(0))),
    "as large as a petabyte": ("shape", _weight(lambda: torch.tensor(SECRET).expand(10**15))),
    "a scalar that is an array": ("shape", _with("2.scale", torch.full((1,), SECRET))),
    "float64": ("dtype", _weight(_FULL.double)),
    "float16": ("dtype", _weight(_FULL.half)),
    "bfloat16": ("dtype", _weight(_FULL.bfloat16)),
    "integers": ("dtype", _weight(_FULL.long)),
    "booleans": ("dtype", _weight(_FULL.bool)),
    "complex numbers": ("dtype", _weight(lambda: _FULL.to(torch.complex64))),
    "8 bits": ("dtype", _weight(lambda: _FULL.to(torch.float8_e4m3fn))),
    "a counter of real numbers": ("dtype", _with("1.num_batches_tracked", torch.tensor(SECRET))),
    "a counter of 32 bits": ("dtype", _with("1.num_batches_tracked", torch.tensor(5, dtype=torch.int32))),
    "a running mean of 64 bits": ("dtype", _with("1.running_mean", torch.full((4,), SECRET).double())),
    "numpy, 64 bits": ("dtype", _weight(lambda: np.full((4, 3), SECRET))),
    "numpy, the other byte order": ("dtype", _weight(lambda: np.full((4, 3), SECRET, ">f4"))),
    "numpy, objects": ("dtype", _weight(lambda: np.full((4, 3), SECRET, object))),
    "numpy, texts": ("dtype", _weight(lambda: np.full((4, 3), "1"))),
    "numpy, records": ("dtype", _weight(lambda: np.zeros((4, 3), "i4,i4"))),
    "nan": ("not finite", _weight(lambda: _FULL.index_fill(1, torch.tensor([1]), torch.nan))),
    "inf": ("not finite", _weight(lambda: _FULL / 0)),
    "nan in numpy": ("not finite", _weight(lambda: np.full((4, 3), np.nan, np.float32))),
    "nan in a scalar": ("not finite", _with("2.scale", torch.tensor(torch.nan))),
    "nan in a running mean": ("not finite", _with("1.running_mean", torch.full((4,), torch.nan))),
    "inf in a running variance": ("not finite", _with("1.running_var", torch.full((4,), torch.inf))),
    "a float": ("garbage", _with("2.scale", SECRET)),
    "a numpy number": ("garbage", _with("2.scale", np.float32(SECRET))),
    "nested lists": ("garbage", _weight(_FULL.tolist)),
    "nothing": ("garbage", _weight(lambda: None)),
    "a text for an array": ("garbage", _weight(lambda: "hi")),
    "sparse": ("garbage", _weight(_FULL.to_sparse)),
    "compressed rows": ("garbage", _weight(lambda: quietly(_FULL.to_sparse_csr))),
    "quantised": ("garbage", _weight(lambda: quietly(lambda: torch.quantize_per_tensor(_FULL, 1.0, 0, torch.quint8)))),
    "without numbers": ("garbage", _weight(lambda: torch.empty(4, 3, device="meta"))),
    "nested": ("garbage", _weight(lambda: quietly(lambda: torch.nested.nested_tensor([_FULL])))),
    "lazy": ("garbage", _weight(LazyTensor)),
    "not yet made": ("garbage", _weight(nn.UninitializedParameter)),
    "a hostile tensor": ("garbage", _weight(lambda: _FULL.as_subclass(HostileTensor))),
    "a lying tensor": ("garbage", _weight(lambda: _FULL.as_subclass(LyingTensor))),
    "a lying array": ("garbage", _weight(lambda: np.full(7, SECRET, np.float32).view(LyingArray))),
    "a matrix of numpy": ("garbage", _weight(lambda: np.full((4, 3), SECRET, np.float32).view(np.recarray))),
    "a masked array": ("garbage", _weight(lambda: np.ma.masked_array(_FULL.numpy(), mask=True))),
    "freed memory": ("garbage", _weight(freed)),
    "freed memory in disguise": ("garbage", _weight(disguised)),
    "memory that is too short": ("garbage", _weight(shortened)),
}
"""What was wrong, as a word, and the reply as a function of a good one."""

UNUSUAL: dict[str, Callable[[State], Any]] = {
    "an ordered dict": OrderedDict,
    "another order": lambda good: dict(reversed(good.items())),
    "parameters that ask for gradients": _weight(lambda: nn.Parameter(_FULL)),
    "part of a graph": _weight(lambda: nn.Parameter(_FULL) * 1.0),
    "numpy": lambda good: {name: value.numpy() for name, value in good.items()},
    "numpy that cannot be written": _weight(lambda: np.broadcast_to(np.float32(SECRET), (4, 3))),
    "columns first": _weight(lambda: torch.full((3, 4), SECRET).T),
    "one number, stretched": _weight(lambda: torch.tensor(SECRET).expand(4, 3)),
    "every second": _weight(lambda: torch.full((8, 6), SECRET)[::2, ::2]),
    "numpy, backwards": _weight(lambda: np.full((4, 3), SECRET, np.float32)[::-1, ::-1]),
    "negated without being read": _weight(lambda: torch.complex(_FULL, -_FULL).conj().imag),
    "made for inference": _weight(inference),
}
"""Replies that are models all the same."""
