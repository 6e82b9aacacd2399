"""Event files, read back with TensorBoard's own messages and checksums."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData
from tensorboardX.record_writer import masked_crc32c
from tests.exports.folders import record, written

from steadfed.errors import CorruptRunError, ParameterError
from steadfed.exports import to_tensorboard


def events(folder: Path) -> Iterator[Any]:
    """Yield the events of the only event file in a folder, after checking the checksums of every record."""
    (path,) = folder.iterdir()
    assert "tfevents" in path.name
    data = path.read_bytes()
    while data:
        length, of_length = struct.unpack("<QI", data[:12])
        assert of_length == masked_crc32c(data[:8])
        body, of_body = data[12 : 12 + length], struct.unpack("<I", data[12 + length : 16 + length])[0]
        assert of_body == masked_crc32c(body)
        event = Event()
        event.ParseFromString(body)
        yield event
        data = data[16 + length :]


def scalars(folder: Path, tag: str) -> dict[int, float]:
    return {
        event.step: value.simple_value
        for event in events(folder)
        for value in event.summary.value
        if value.tag == tag and value.HasField("simple_value")
    }


def test_scalars_have_the_round_as_their_step(tmp_path: Path) -> None:
    written(tmp_path / "run")
    folder = to_tensorboard(tmp_path / "run", tmp_path / "out")
    assert folder == tmp_path / "out" / "run"
    assert scalars(folder, "accuracy/test") == pytest.approx({0: 0.5, 1: 0.6, 2: 0.7})
    assert scalars(folder, "loss/test") == pytest.approx({0: 1.0, 2: 1 / 3})
    assert scalars(folder, "clients/byzantine_removed") == {0: 0, 1: 1, 2: 1}
    assert scalars(folder, "metrics/_i_loss_/i_/../x") == {0: 2, 1: 2, 2: 2}


def test_the_first_event_says_the_version_and_times_follow_the_rounds(tmp_path: Path) -> None:
    written(tmp_path / "run")
    first, *rest = events(to_tensorboard(tmp_path / "run", tmp_path / "out"))
    assert first.file_version == "brain.Event:2"
    assert [event.wall_time - first.wall_time for event in rest[-3:]] == pytest.approx([2, 4, 6], abs=1e-3)


def test_the_configuration_is_a_table_of_hyperparameters(tmp_path: Path) -> None:
    written(tmp_path / "run")
    found = {}
    for event in events(to_tensorboard(tmp_path / "run", tmp_path / "out")):
        for value in event.summary.value:
            if value.tag == "_hparams_/session_start_info":
                content = HParamsPluginData()
                content.ParseFromString(value.metadata.plugin_data.content)
                found = dict(content.session_start_info.hparams)
    assert found["rule.name"].string_value == "rage"
    assert found["lr"].number_value == 0.1
    assert found["name"].string_value == "<b>odd</b>"


def test_a_second_export_replaces_the_first_with_the_same_bytes(tmp_path: Path) -> None:
    folder = written(tmp_path / "run")
    (first,) = to_tensorboard(folder.path, tmp_path / "out").iterdir()
    before = first.read_bytes()
    (second,) = to_tensorboard(folder.path, tmp_path / "out").iterdir()
    assert second.read_bytes() == before
    folder.append(record(3))
    assert len(scalars(to_tensorboard(folder.path, tmp_path / "out"), "accuracy/test")) == 4


def test_runs_of_one_name_have_places_of_their_own(tmp_path: Path) -> None:
    written(tmp_path / "a" / "run")
    written(tmp_path / "b" / "run", 1)
    for name in ("a/run", "b/run"):
        assert to_tensorboard(tmp_path / name, tmp_path / "out", name=name) == tmp_path / "out" / name
    assert len(scalars(tmp_path / "out" / "a" / "run", "accuracy/test")) == 3


def test_event_files_of_others_are_left_alone(tmp_path: Path) -> None:
    written(tmp_path / "run")
    other = tmp_path / "out" / "run" / "events.out.tfevents.1.elsewhere"
    other.parent.mkdir(parents=True)
    other.write_bytes(b"mine")
    to_tensorboard(tmp_path / "run", tmp_path / "out")
    assert other.read_bytes() == b"mine"


def test_a_damaged_run_leaves_the_earlier_export(tmp_path: Path) -> None:
    folder = written(tmp_path / "run")
    to_tensorboard(folder.path, tmp_path / "out")
    with (folder.path / "rounds.jsonl").open("a") as file:
        file.write("nonsense\n")
    with pytest.raises(CorruptRunError, match="line 4"):
        to_tensorboard(folder.path, tmp_path / "out")
    assert len(scalars(tmp_path / "out" / "run", "accuracy/test")) == 3


def test_a_run_without_rounds_is_exported_too(tmp_path: Path) -> None:
    written(tmp_path / "run", 0)
    assert scalars(to_tensorboard(tmp_path / "run", tmp_path / "out"), "accuracy/test") == {}


def test_without_the_package_the_message_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ParameterError, match=r"pip install 'steadfed\[tensorboard\]'"):
        to_tensorboard(tmp_path, tmp_path)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    written(tmp_path / "run")
    (tmp_path / "file").touch()
    with pytest.raises(ParameterError, match="cannot write to"):
        to_tensorboard(tmp_path / "run", tmp_path / "file")
