"""A user's own data: tensors, .npz files, torch data sets, Hugging Face's columns."""

from __future__ import annotations

import sys
import types
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset as TorchData, IterableDataset, TensorDataset

from steadfed.data import HuggingFace, Npz, TorchDataset, from_hugging_face, from_tensors, from_torch
from steadfed.errors import CorruptDataError, DataError, MissingDataError, ParameterError


def test_bytes_are_pixels_floats_are_floats_and_other_integers_are_tokens() -> None:
    pixels = from_tensors(np.array([[0, 255]], dtype=np.uint8), [0])
    assert pixels.features.tolist() == [[0.0, 1.0]]
    assert from_tensors(np.array([[0.5]], dtype=np.float32), [0]).features.dtype == torch.float32
    assert from_tensors(np.array([[0.5]]), [0]).features.dtype == torch.float64
    assert from_tensors(np.array([[0.5]], dtype=np.float16), [0]).features.dtype == torch.float32
    tokens = from_tensors([[1, 2], [7, 3]], [[2, 3], [3, 4]])
    assert tokens.features.dtype == torch.int64
    assert tokens.num_classes == 8


def test_float_labels_are_no_classes() -> None:
    assert from_tensors([[1.0]], [2.5]).num_classes is None
    assert from_tensors([[1.0]], [2], num_classes=10).num_classes == 10


def test_owners_are_counted_from_zero_in_order() -> None:
    dataset = from_tensors(torch.ones(3, 1), torch.zeros(3, dtype=torch.int64), groups=[30, 10, 30])
    assert dataset.groups is not None
    assert dataset.groups.tolist() == [1, 0, 1]
    assert dataset.group_names == ("10", "30")


def test_the_tensors_of_the_user_are_not_changed() -> None:
    given = torch.tensor([[1.0, 2.0]])
    dataset = from_tensors(given, [0])
    dataset.features.zero_()
    assert given.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"features": [[1.0], [1.0, 2.0]]}, "are no array"),
        ({"features": [1.0, 2.0]}, "points must be arrays of numbers"),
        ({"features": [["a"], ["b"]]}, "points must be arrays of numbers"),
        ({"features": [[object()], [None]]}, "must be numbers, got object"),
        ({"features": [[1.0], [float("nan")]]}, "NaN or Inf"),
        ({"features": [[1.0], [1e300]]}, "NaN or Inf"),
        ({"labels": [1.0, float("nan")]}, "training labels hold NaN or Inf"),
        ({"features": torch.empty(0, 3), "labels": []}, "no training point"),
        ({"labels": [0]}, "2 training points have 1 labels"),
        ({"labels": ["cat", "dog"]}, "labels must be numbers"),
        ({"labels": [0, -1]}, "must lie in"),
        ({"test_features": [[1.0]]}, "given together"),
        ({"test_features": [[1.0, 2.0]], "test_labels": [0]}, "must have one shape"),
        ({"groups": [0]}, "2 points have 1 owners"),
        ({"groups": [0.5, 1.5]}, "owners must be one number or name"),
    ],
)
def test_arrays_that_do_not_fit_say_why(parameters: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        from_tensors(**{"features": [[1.0], [2.0]], "labels": [0, 1], **parameters})


def test_npz_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    arrays: dict[str, Any] = {
        "features": np.eye(3),
        "labels": [0, 1, 2],
        "test_features": np.ones((1, 3)),
        "test_labels": [2],
    }
    np.savez_compressed(path, **arrays, groups=np.array(["b", "a", "b"]), other=np.ones(2))
    dataset = Npz(path=path).load()
    assert torch.equal(dataset.features, torch.eye(3))
    assert (dataset.name, dataset.num_classes, dataset.group_names) == ("mine", 3, ("a", "b"))
    assert dataset.test_labels.tolist() == [2]


def test_npz_files_with_objects_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    np.savez(path, features=np.eye(2), labels=np.array([{}, None], dtype=object))
    with pytest.raises(CorruptDataError, match=r"mine\.npz.*allow_pickle=False"):
        Npz(path=path).load()


def test_npz_headers_that_announce_too_much_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    np.savez(path, features=np.eye(2), labels=np.array([0, 1]))
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content.replace(b"(2, 2), }             ", b"(2, 99999999999), }   "))
    with pytest.raises(CorruptDataError, match="its header announces"):
        Npz(path=path).load()


@pytest.mark.parametrize("cut", [0, 10, 200, -30])
def test_truncated_npz_files_are_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "mine.npz"
    np.savez(path, features=np.eye(2), labels=np.array([0, 1]))
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(CorruptDataError, match=r"mine\.npz"):
        Npz(path=path).load()


def test_npz_files_without_the_needed_arrays_are_refused_with_what_they_hold(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", x=np.eye(2), y=np.array([0, 1]))
    with pytest.raises(CorruptDataError, match=r"expected arrays called features, labels in .*, got x, y"):
        Npz(path=tmp_path / "mine.npz").load()
    with pytest.raises(MissingDataError, match=r"numpy\.savez"):
        Npz(path=tmp_path / "none.npz").load()


@pytest.fixture
def in_the_folder_of_mydata(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(Path(__file__).parent)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    yield
    sys.modules.pop("mydata", None)


def test_a_torch_data_set_is_named_by_its_import_path(in_the_folder_of_mydata: None) -> None:
    before = list(sys.path)
    dataset = TorchDataset(factory="mydata:alone").load()
    assert torch.equal(dataset.features, torch.eye(4))
    assert dataset.labels.tolist() == [0, 1, 2, 1]
    assert len(dataset.test_features) == 0
    assert TorchDataset(factory="mydata:pair").load().test_labels.tolist() == [2, 0]
    assert sys.path == before


@pytest.mark.parametrize(
    ("factory", "complaint"),
    [
        ("mydata:alon", "did you mean 'alone'"),
        ("mydata:POINTS", "the data set 'mydata:POINTS' must be a function, got"),
        ("mydata:nothing", "must return a torch.utils.data.Dataset or a pair of them, got NoneType"),
        ("no_such_module:f", "there is no module 'no_such_module'"),
    ],
)
def test_import_paths_that_lead_nowhere_say_why(in_the_folder_of_mydata: None, factory: str, complaint: str) -> None:
    with pytest.raises((DataError, ParameterError), match=complaint):
        TorchDataset(factory=factory).load()


class _Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter([(np.zeros(2), 1), ([1.0, 2.0], 0)])


class _Words(TorchData[Any]):
    def __len__(self) -> int:
        return 1

    def __getitem__(self, _: int) -> Any:
        return "word", 0


def test_streams_are_stacked_and_owners_may_be_given() -> None:
    dataset = from_torch(_Stream(), groups=["b", "a"])
    assert dataset.features.tolist() == [[0.0, 0.0], [1.0, 2.0]]
    assert dataset.group_names == ("a", "b")


def test_points_that_are_no_numbers_or_no_pairs_are_refused() -> None:
    with pytest.raises(DataError, match="features of point 0 must be a tensor, an array or a number, got str"):
        from_torch(_Words())
    with pytest.raises(DataError, match="points must be pairs"):
        from_torch(TensorDataset(torch.ones(2, 3)))
    with pytest.raises(DataError, match="cannot be stacked"):
        from_torch([(torch.ones(1), 0), (torch.ones(2), 1)])


class Columns(dict[str, Any]):
    """What `datasets` offers as far as it is used: columns by name."""

    @property
    def column_names(self) -> list[str]:
        return list(self)


PETS = Columns(
    image=[np.full((4, 5, 3), value, dtype=np.uint8) for value in (0, 51, 255)],
    label=["dog", "cat", "dog"],
    home=["x", "y", "x"],
    weight=[8.0, 4.0, 9.0],
    legs=[4, 4, 3],
)


def test_images_become_channels_first_and_words_become_classes() -> None:
    dataset = from_hugging_face(PETS, PETS, features="image", groups="home")
    assert dataset.features.shape == (3, 3, 4, 5)
    assert dataset.features[:, 0, 0, 0].tolist() == pytest.approx([0.0, 0.2, 1.0])
    assert dataset.labels.tolist() == [1, 0, 1]
    assert torch.equal(dataset.test_features, dataset.features)
    assert dataset.group_names == ("x", "y")


def test_columns_of_numbers_are_put_side_by_side() -> None:
    dataset = from_hugging_face(PETS, features=["weight", "legs"], labels="legs")
    assert dataset.features.tolist() == [[8.0, 4.0], [4.0, 4.0], [9.0, 3.0]]
    assert dataset.labels.tolist() == [4, 4, 3]


def test_unknown_columns_and_words_are_refused() -> None:
    with pytest.raises(DataError, match="no column 'imag', did you mean 'image'"):
        from_hugging_face(PETS, features="imag")
    with pytest.raises(DataError, match="label 'cow'"):
        from_hugging_face(PETS, Columns(weight=[1.0], label=["cow"]), features="weight")


def test_a_missing_library_is_an_error_with_the_command_that_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingDataError, match=r"pip install 'steadfed\[huggingface\]'"):
        HuggingFace(path="ylecun/mnist").load()


class _Whole:
    column_names = PETS.column_names

    def __getitem__(self, column: str) -> Any:
        return PETS[column]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a stand-in for the library `datasets` in its place, with one data set on the hub and one on disk."""

    def load_dataset(name: str) -> Any:
        if name != "pets":
            raise FileNotFoundError(name)
        return {"train": PETS, "test": PETS}

    stand_in = types.ModuleType("datasets")
    monkeypatch.setattr(stand_in, "load_dataset", load_dataset, raising=False)
    monkeypatch.setattr(stand_in, "load_from_disk", lambda folder: {"train": PETS, "held-out": PETS}, raising=False)
    monkeypatch.setitem(sys.modules, "datasets", stand_in)


def test_sets_of_the_hub_and_of_a_folder_are_read(library: None, tmp_path: Path) -> None:
    assert len(HuggingFace(path="pets", features="weight").load().test_features) == 3
    source = HuggingFace(path=tmp_path, features=("weight", "legs"), test_split="held-out")
    assert source.load().features.shape == (3, 2)
    assert len(HuggingFace(path=tmp_path, features="weight", test_split=None).load().test_features) == 0


def test_a_folder_without_parts_is_for_training(library: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["datasets"], "load_from_disk", lambda folder: _Whole())
    assert len(HuggingFace(path=tmp_path, features="weight", test_split=None).load().features) == 3
    with pytest.raises(DataError, match="no part 'test'; it has train; test_split may be None"):
        HuggingFace(path=tmp_path, features="weight").load()


def test_sets_and_parts_that_do_not_exist_are_refused(library: None, tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="nobody/nothing is neither a folder"):
        HuggingFace(path="nobody/nothing").load()
    with pytest.raises(DataError, match="no part 'test'; it has train, held-out"):
        HuggingFace(path=tmp_path, features="weight").load()
