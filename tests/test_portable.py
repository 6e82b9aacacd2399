"""Which instruction sets are played, and with what."""

from __future__ import annotations

import pytest
from tests.portable import LEVELS, places, playable

AVX2 = frozenset({"ssse3", "sse4_2", "avx2", "fma", "bmi2"})
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


def test_every_level_that_the_cpu_has_is_played_and_the_others_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert [name for name, _ in playable(AVX512)] == [level.name for level in LEVELS]
    assert capsys.readouterr().out == ""
    assert [name for name, _ in playable(AVX2)] == ["x86-64-v2 (SSE)", "x86-64-v3 (AVX2)"]
    said = capsys.readouterr().out
    assert said.startswith("x86-64-v4 (AVX-512): left out, this CPU has no avx512bw, avx512cd, avx512dq, avx512f")


def test_a_cpu_that_is_no_x86_is_played_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(playable(frozenset())) == [("this CPU, which is no x86-64", {})]
    assert capsys.readouterr().out.count("left out") == len(LEVELS)


def test_levels_differ_in_torch_blas_and_numpy() -> None:
    for variable, values in {
        "ATEN_CPU_CAPABILITY": ["default", "avx2", "avx512"],
        "OPENBLAS_CORETYPE": ["Prescott", "Haswell", "SkylakeX"],
    }.items():
        assert [level.environment()[variable] for level in LEVELS] == values
    lowest, middle, highest = (level.environment().get("NPY_DISABLE_CPU_FEATURES", "") for level in LEVELS)
    assert set(lowest.split()) >= set(middle.split()) >= set(highest.split()) == set()


def test_the_marked_files_are_found() -> None:
    assert "tests/models/test_elementwise.py" in places()
    assert "tests/test_values.py" not in places()
    assert places()[-1] == "src"
