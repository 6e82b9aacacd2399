"""What is mutated and which tests must notice it. A module that moves is renamed here, and nowhere else."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "src/steadfed"
PER_MODULE = 5
"""How many mutants of a module are played unless something else is asked for."""


@dataclass(frozen=True)
class Target:
    """A module below the package, and the tests that are about it; its own doctests always count."""

    module: str
    tests: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The module, from the root of the project."""
        return Path(PACKAGE, self.module)


def _of(folder: str, names: str, tests: str) -> tuple[Target, ...]:
    paths = tuple(f"tests/{name}" for name in tests.split())
    return tuple(Target(f"{folder}/{name}.py", paths) for name in names.split())


PAPER = "theory/paper theory/test_lemmas.py theory/test_statements.py"
MATRIX = "flower/replies/test_matrix.py flower/test_strategy.py flower/test_agreement.py"
REPLIES = "flower/replies/test_validator.py flower/replies/test_npy.py"
SIMULATION = """simulation/test_algorithm1.py simulation/test_options.py simulation/test_adversary.py
simulation/test_measuring.py simulation/test_evaluation.py simulation/test_cohorts.py"""
TARGETS: tuple[Target, ...] = (
    # the filter
    *_of("aggregators/_rage", "certificate rule", "aggregators/test_rage.py aggregators/test_exact.py"),
    *_of("aggregators/_rage", "displacement guard anchor deciding", "aggregators/test_displacement.py"),
    *_of("aggregators/_rage", "rounding point", "aggregators/test_rounding.py aggregators/test_solved.py"),
    *_of("aggregators/_rage", "constants", "aggregators/test_constants.py aggregators/test_rage.py"),
    *_of("aggregators/_rage", "exact", "aggregators/test_exact.py aggregators/test_rage.py"),
    *_of("aggregators/_rage", "decided", "aggregators/test_saddle.py aggregators/test_exact.py"),
    *_of("aggregators/_rage", "solved responses", "aggregators/test_solved.py"),
    *_of("aggregators/_rage", "filtering", "linalg/test_spectrum.py aggregators/test_rage.py"),
    *_of("aggregators/_rage", "saddle simplex", "aggregators/test_saddle.py aggregators/test_solved.py"),
    *_of("aggregators/_rage", "second_key", "aggregators/test_second_key.py"),
    *_of("aggregators/_rage", "weighing", "aggregators/test_weighing.py"),
    # linear algebra
    *_of("_linalg", "blocks columns", "linalg/test_columns.py linalg/test_mixtures.py linalg/test_gram.py"),
    *_of("_linalg", "sources", "linalg/test_columns.py linalg/test_gram.py"),
    *_of("_linalg", "gram", "linalg/test_gram.py linalg/test_columns.py"),
    *_of("_linalg", "mixtures", "linalg/test_mixtures.py aggregators/test_wrappers.py"),
    *_of("_linalg", "norms", "aggregators/test_similarity.py aggregators/test_centre.py"),
    *_of("_linalg", "shards", "linalg/test_shards.py"),
    *_of("_linalg", "sketch", "linalg/test_sketch.py aggregators/test_second_key.py"),
    *_of("_linalg", "spectrum", "linalg/test_spectrum.py aggregators/test_spectral.py aggregators/test_rage.py"),
    *_of("_linalg", "threads", "linalg/test_threads.py"),
    # theory
    *_of("theory/paper", "_bounds _concentration _recurrences _setting", PAPER),
    *_of("theory/remarks", "_bounded_gradients _statistical", "theory/remarks"),
    *_of("theory", "robustness", "theory/test_robustness.py"),
    *_of("theory", "sampling _search", "theory/test_sampling.py theory/test_search.py"),
    *_of("_core", "ranges", "theory/test_ranges.py theory/test_sharp_edges.py theory/paper"),
    *_of("_core", "gaps", "theory/test_gaps.py"),
    *_of("theory", "sharp", "theory/test_sharp_edges.py theory/test_concentration.py theory/test_lemmas.py"),
    # the server
    *_of("simulation", "_federation", SIMULATION),
    *_of("simulation", "_step_schedules", "simulation/test_step_schedules.py"),
    *_of("simulation", "_compression", "simulation/test_compression.py"),
    *_of("_core", "coordinates", "test_coordinates.py"),
    *_of("server", "_coordinates", "simulation/test_compression.py"),
    *_of("server", "_buffers", "server/test_buffers.py"),
    *_of("server", "_decision", "server/test_decision.py"),
    *_of("server", "_round _step", "server/test_round.py"),
    *_of("server", "_site_weights _promise", "server/test_site_weights.py"),
    *_of("server", "_state", "server/test_state.py"),
    *_of("flower/_replies", "matrix", MATRIX),
    # what clients reply
    *_of("flower/_replies", "validator npy", REPLIES),
    *_of("states", "_layout _arrays", f"states/test_layout.py states/test_aggregate.py {REPLIES}"),
    *_of("states", "_validator _matrix _faults", f"states {REPLIES} flower/replies/test_matrix.py"),
    *_of("states", "_tensors _round _result _aggregate", "states"),
    *_of("states", "_layers", "states/test_layers.py"),
    *_of("flower", "_npy", f"{REPLIES} flower/test_npy.py"),
    *_of("flower/_replies", "matcher", "flower/replies/test_matcher.py flower/replies/test_matrix.py"),
    *_of("flower/_replies", "stream bounds", "flower/replies/test_stream.py"),
    *_of("flower", "_link", "flower/test_link.py flower/replies/test_stream.py"),
    *_of("flower", "superlink", "flower/test_superlink.py"),
)  # fmt: skip


def equivalents() -> dict[str, dict[str, str]]:
    """Return by module the names of mutants that no test can tell from the original, each with the reason."""
    return tomllib.loads(Path(__file__).with_name("equivalent.toml").read_text(encoding="utf-8"))
