"""LIBSVM files, heart disease by hospital, Shakespeare by speaker."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from steadfed.data import (
    A9a,
    HeartDisease,
    Libsvm,
    TinyShakespeare,
    _heart_disease as heart_disease,
    _libsvm as libsvm,
    _shakespeare as shakespeare,
)
from steadfed.data._heart_disease import encode, parse_patients
from steadfed.data._places import FileSet
from steadfed.errors import CorruptDataError, DataError, MissingDataError, ParameterError


def known(files: FileSet, contents: list[bytes], folder: Path) -> FileSet:
    """Write the contents under the names of the set's files, and return the set with their checksums."""
    folder.mkdir(parents=True, exist_ok=True)
    described = []
    for file, content in zip(files.files, contents, strict=True):
        (folder / file.name).write_bytes(content)
        described.append(replace(file, size=len(content), sha256=hashlib.sha256(content).hexdigest()))
    return replace(files, files=tuple(described))


def test_libsvm_features_are_dense_and_labels_are_numbered_in_order(tmp_path: Path) -> None:
    train, test = tmp_path / "train", tmp_path / "test.gz"
    train.write_text("+1 1:0.5 4:2\n-1 2:1\n+1 \n")
    test.write_bytes(gzip.compress(b"-1 3:7\n"))
    dataset = Libsvm(path=train, test_path=test).load()
    assert dataset.features.tolist() == [[0.5, 0, 0, 2], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert dataset.features.dtype == torch.float32
    assert dataset.labels.tolist() == [1, 0, 1]
    assert (dataset.test_features.tolist(), dataset.test_labels.tolist()) == ([[0, 0, 7, 0]], [0])
    assert dataset.num_classes == 2


def test_libsvm_takes_many_classes_a_width_and_no_test(tmp_path: Path) -> None:
    (tmp_path / "train").write_text("7 1:1\n3 1:2\n10 2:1\n")
    dataset = Libsvm(path=tmp_path / "train", num_features=5).load()
    assert dataset.labels.tolist() == [1, 0, 2]
    assert dataset.features.shape == (3, 5)
    assert dataset.test_features.shape == (0, 5)
    assert len(dataset.checksum) == 64


@pytest.mark.parametrize("text", ["hello world\n", "1 a:b\n", "1,2 1:1\n", "1 2:1 1:1\n", "\x00\x01\x02\n", "1 9:1\n"])
def test_garbage_is_no_libsvm_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "train").write_text(text)
    with pytest.raises(CorruptDataError, match=r"train: expected lines"):
        Libsvm(path=tmp_path / "train", num_features=5).load()


@pytest.mark.parametrize(
    ("train", "test", "complaint"),
    [
        ("0.5 1:1\n", "", "classes must be whole numbers, got the label 0.5"),
        ("1 1:1\n", "2 1:1\n", "a point to test on has the label 2"),
        ("1 2000000000:1\n2 1:1\n", "", "16,000,000,000 bytes; at most 268,435,456 are read"),
        ("1 1:nan\n", "", "NaN"),
        ("", "", "no training point"),
    ],
)
def test_libsvm_files_that_cannot_be_used_say_why(tmp_path: Path, train: str, test: str, complaint: str) -> None:
    (tmp_path / "train").write_text(train)
    (tmp_path / "test").write_text(test)
    with pytest.raises(DataError, match=complaint):
        Libsvm(path=tmp_path / "train", test_path=tmp_path / "test" if test else None).load()


def test_a_missing_libsvm_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="there is no file nowhere"):
        Libsvm(path="nowhere").load()


def test_a9a_has_123_features_whatever_the_test_shows(empty_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = [b"-1 3:1 123:1\n+1 1:1\n", b"+1 122:1\n"]
    monkeypatch.setattr(libsvm, "A9A_FILES", known(libsvm.A9A_FILES, contents, empty_machine / "data/a9a"))
    dataset = A9a().load()
    assert dataset.features.shape == (2, 123)
    assert dataset.test_features.shape == (1, 123)
    assert dataset.labels.tolist() == [0, 1]


PATIENTS = (
    "63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,?,?,6.0,0\n"
    "67.0,0.0,4.0,160.0,233.0,0.0,1.0,108.0,1.0,1.5,2.0,3.0,3.0,2\n"
    "?,1.0,4.0,120.0,229.0,0.0,2.0,129.0,1.0,2.6,2.0,2.0,7.0,1\n"
)


def test_patients_with_missing_values_are_dropped_and_categories_are_one_hot() -> None:
    table = encode(parse_patients(PATIENTS.encode(), "hospital"))
    assert table.tolist() == [
        [63, 1, 145, 233, 1, 150, 0, 2.3, 0, 0, 0, 0, 1, 0],
        [67, 0, 160, 233, 0, 108, 1, 1.5, 0, 0, 1, 1, 0, 1],
    ]


@pytest.mark.parametrize("content", [b"1,2,3\n", b"\x00\xff" * 50, PATIENTS.replace("145.0", "much").encode()])
def test_garbage_is_no_table_of_patients(content: bytes) -> None:
    with pytest.raises(CorruptDataError, match="hospital: expected"):
        parse_patients(content, "hospital")


@pytest.fixture
def small_hospitals(empty_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ages = [[40, 50, 60, 70, 80], [30, 31, 35, 60, 61], [50, 51, 52, 57, 58], [70, 75, 76, 79, 80]]
    row = "{},1,{},145,233,1,2,150,0,2.3,?,?,?,{}\n"
    contents = [
        "".join(row.format(age, 1 + i % 4, i % 2) for i, age in enumerate(hospital)).encode() for hospital in ages
    ]
    files = known(heart_disease.HEART_FILES, contents, empty_machine / "data/heart-disease")
    monkeypatch.setattr(heart_disease, "HEART_FILES", files)


def test_features_are_standardised_within_each_hospital(small_hospitals: None) -> None:
    dataset = HeartDisease(test_fraction=0).load()
    assert dataset.features.shape == (20, 13)
    assert dataset.test_features.shape == (0, 13)
    assert dataset.groups is not None
    assert dataset.groups.tolist() == [0] * 5 + [1] * 5 + [2] * 5 + [3] * 5
    assert dataset.group_names == ("Cleveland", "Budapest", "Zurich and Basel", "Long Beach")
    ages = dataset.features[:, 0].view(4, 5)
    assert torch.allclose(ages.mean(1), torch.zeros(4), atol=1e-6)
    assert torch.allclose(ages.std(1, correction=0), torch.ones(4), atol=1e-6)
    assert not dataset.features[:, 1].any(), "a constant feature becomes 0"


def test_the_intercept_is_a_last_column_of_ones(small_hospitals: None) -> None:
    features = HeartDisease(intercept=True, test_fraction=0).load().features
    assert features.shape == (20, 14)
    assert bool((features[:, -1] == 1).all())


def test_each_hospital_gives_its_share_to_the_test_and_scales_by_the_rest(small_hospitals: None) -> None:
    dataset = HeartDisease(test_fraction=0.4).load()
    assert dataset.groups is not None
    assert np.bincount(dataset.groups).tolist() == [3, 3, 3, 3]
    assert len(dataset.test_features) == 8
    assert torch.allclose(dataset.features[:, 0].view(4, 3).mean(1), torch.zeros(4), atol=1e-6)
    assert dataset.checksum == HeartDisease(test_fraction=0.4).load().checksum


@pytest.mark.parametrize("fraction", [-0.1, 1.0, "much"])
def test_a_test_fraction_outside_its_range_is_refused(fraction: object) -> None:
    with pytest.raises(ParameterError, match="test_fraction"):
        HeartDisease(test_fraction=fraction)


PLAY = "Anna:\nabcdefghij\nklmnopqrs\n\nBERT:\nabc\n\nANNA:\ntuvwxyzabcdefghijkl\n"


@pytest.fixture
def small_play(empty_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = known(shakespeare.SHAKESPEARE_FILES, [PLAY.encode()], empty_machine / "data/tinyshakespeare")
    monkeypatch.setattr(shakespeare, "SHAKESPEARE_FILES", files)


def test_sequences_are_followed_by_their_next_characters(small_play: None) -> None:
    dataset = TinyShakespeare(sequence_length=3, min_characters=4).load()
    symbols = sorted(set(PLAY))
    said = "abcdefghij\nklmnopqrs\ntuvwxyzabcdefghijkl"
    text = ["".join(symbols[token] for token in row) for row in dataset.features.tolist()]
    following = ["".join(symbols[token] for token in row) for row in dataset.labels.tolist()]
    assert text == [said[i : i + 3] for i in range(0, 36 - 3, 3)]
    assert following == [said[i + 1 : i + 4] for i in range(0, 36 - 3, 3)]
    assert dataset.test_features.shape == (1, 3)
    assert "".join(symbols[token] for token in dataset.test_labels[0].tolist()) == said[-3:]
    assert dataset.num_classes == len(symbols)
    assert dataset.group_names == ("ANNA",)


def test_speakers_of_few_words_can_be_let_in(small_play: None) -> None:
    dataset = TinyShakespeare(sequence_length=2, min_characters=3).load()
    assert dataset.group_names == ("ANNA", "BERT")
    assert dataset.groups is not None
    assert np.bincount(dataset.groups).tolist() == [17, 1]


def test_a_play_without_long_speeches_is_an_error_that_says_so(small_play: None) -> None:
    with pytest.raises(DataError, match="nobody says 1000 characters"):
        TinyShakespeare().load()


def test_text_without_speakers_is_refused() -> None:
    with pytest.raises(CorruptDataError, match="expected speeches under lines 'NAME:', got 'Once upon a time'"):
        shakespeare.speeches("Once upon a time\nthere was", "input.txt")
