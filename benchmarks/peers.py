"""Rules and attacks of the peer libraries byzfl 0.0.11 and TorchJD 0.18.0, in the form that the benchmarks call.

The package ``byzfl`` imports its whole simulation framework when it is imported, and with it torchvision, matplotlib
and seaborn. None of these takes part in aggregating, and torchvision is not available for every build of torch. This
module therefore loads only the subpackages ``byzfl.aggregators`` and ``byzfl.attacks`` (which use ``byzfl.utils``) and
never runs ``byzfl/__init__.py``. The code of the rules is the installed code, unchanged.

Next to byzfl itself the rules need torch, numpy and scipy. Because the metadata of byzfl asks for torchvision, byzfl is
best installed with ``pip install --no-deps byzfl==0.0.11``. TorchJD needs torch alone and is imported as it is.
"""

import functools
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import psutil
import torch
from torch import Tensor

PEER = "byzfl"
PEER_VERSION = "0.0.11"
TORCHJD, TORCHJD_VERSION = "torchjd", "0.18.0"
MEMORY_SHARE = 0.8
"""The share of the available memory that a rule may ask for."""

Rule = Callable[[Tensor], Tensor]


def _peer_folder() -> Path:
    """Return the folder of the installed package, without importing it.

    Raises ImportError if the package is missing, or if its version is not the one the benchmarks are written for.
    """
    folder = Path(str(_installed(PEER, PEER_VERSION).locate_file(PEER)))
    if not folder.is_dir():
        raise ImportError(f"The metadata of {PEER} {PEER_VERSION} is there, but the folder {folder} is not.")
    return folder


def _installed(package: str, version: str) -> importlib.metadata.Distribution:
    """Return the distribution of a package; raise ImportError unless exactly this version is installed."""
    advice = f"Install it with: pip install --no-deps {package}=={version}"
    try:
        distribution = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError as error:
        raise ImportError(f"The peer library {package} is not installed. {advice}") from error
    if distribution.version != version:
        raise ImportError(f"Found {package} {distribution.version}, but the benchmark needs {version}. {advice}")
    return distribution


def _take_peer_modules() -> dict[str, ModuleType]:
    """Remove every module of the peer from ``sys.modules`` and return what was removed."""
    names = [name for name in sys.modules if name == PEER or name.startswith(f"{PEER}.")]
    return {name: sys.modules.pop(name) for name in names}


@contextmanager
def _bare_package(folder: Path) -> Iterator[None]:
    """Let submodules of the peer be imported from ``folder`` while its own ``__init__.py`` stays untouched.

    Inside the context an empty package stands in ``sys.modules`` under the peer's name. On leaving, ``sys.modules``
    holds exactly those peer modules that it held before, so a regular import elsewhere is neither helped nor harmed.
    """
    spec = importlib.machinery.ModuleSpec(PEER, loader=None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    before = _take_peer_modules()
    sys.modules[PEER] = importlib.util.module_from_spec(spec)
    try:
        yield
    finally:
        _take_peer_modules()
        sys.modules.update(before)


@functools.cache
def byzfl_module(name: Literal["aggregators", "attacks"]) -> Any:
    """Return a subpackage of byzfl; ``aggregators`` holds the aggregators and the pre-aggregators."""
    with _bare_package(_peer_folder()):
        try:
            return importlib.import_module(f"{PEER}.{name}")
        except ModuleNotFoundError as error:
            raise ImportError(
                f"{PEER} {PEER_VERSION} needs the package {error.name}, which is not installed."
            ) from error


@functools.cache
def torchjd_aggregators() -> Any:
    """Return the module ``torchjd.aggregation``."""
    _installed(TORCHJD, TORCHJD_VERSION)
    return importlib.import_module(f"{TORCHJD}.aggregation")


def _checked(name: str, rule: Callable[[Tensor], object]) -> Rule:
    """Return ``rule`` with an error in place of a result that is not a tensor.

    CAF returns None when it is built for zero Byzantine clients, and when it meets a value that is not finite.
    """

    def call(vectors: Tensor) -> Tensor:
        result = rule(vectors)
        if not isinstance(result, Tensor):
            raise TypeError(f"{name} returned {result!r} and not a tensor.")
        return result

    return call


def peer_rules(num_byzantine: int) -> dict[str, Rule]:
    """Return the peer's rules by name, each set up to tolerate ``num_byzantine`` clients.

    Every rule maps a tensor of shape (clients, dim) to one of shape (dim,). Parameters other than the number of
    Byzantine clients keep the peer's defaults, so GeometricMedian makes three smoothed Weiszfeld steps from zero. The
    peer computes in float32 whatever the type of the input. Krum returns a view of the input if that is float32. CAF
    draws from torch's global random generator, so seed that for a repeatable result. CAF also has no limit on its
    steps, and it may run practically without end on clients that lie thousands of times further out than the others.
    """
    peer = byzfl_module("aggregators")
    average: Callable[[Tensor], Tensor] = peer.Average()
    mixing: Callable[[Tensor], Tensor] = peer.NNM(f=num_byzantine)
    rules: dict[str, Callable[[Tensor], object]] = {
        "byzfl Krum": peer.Krum(f=num_byzantine),
        "byzfl MultiKrum": peer.MultiKrum(f=num_byzantine),
        "byzfl Median": peer.Median(),
        "byzfl TrMean": peer.TrMean(f=num_byzantine),
        "byzfl GeometricMedian": peer.GeometricMedian(),
        "byzfl CAF": peer.CAF(f=num_byzantine),
        "byzfl NNM + mean": lambda vectors: average(mixing(vectors)),
        "byzfl Average": average,
    }
    return {name: _checked(name, rule) for name, rule in rules.items()}


def nnm_bytes(num_clients: int, num_byzantine: int, dim: int) -> int:
    """Return the size in bytes of the largest temporary of the peer's NNM.

    NNM gathers the n - f nearest neighbours of each of the n clients into one float32 tensor of shape (n, n - f, d)
    before it averages them. The input and the (n, d) result come on top of this.
    """
    if num_byzantine < 0 or num_clients <= num_byzantine or dim < 0:
        raise ValueError(
            f"Need 0 <= num_byzantine < num_clients and dim >= 0, got num_byzantine={num_byzantine}, "
            f"num_clients={num_clients}, dim={dim}."
        )
    return num_clients * (num_clients - num_byzantine) * dim * torch.float32.itemsize


def obstacle(name: str, num_clients: int, dim: int, num_byzantine: int) -> str | None:
    """Return why the rule called ``name`` cannot run at this size on this machine, or None if it can."""
    if "NNM" not in name:
        return None
    needed = nnm_bytes(num_clients, num_byzantine, dim) + 2 * num_clients * dim * torch.float32.itemsize
    available = psutil.virtual_memory().available
    if needed <= MEMORY_SHARE * available:
        return None
    return f"it needs {needed / 1e9:.0f} GB at once, and {available / 1e9:.0f} GB are available"
