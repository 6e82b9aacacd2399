"""Runs in a store of MLflow, read back with MLflow's own client."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.exports.folders import record, written
from tests.rewriting import with_config

from steadfed.errors import ParameterError
from steadfed.exports import to_mlflow
from steadfed.exports._mlflow import tracking_uri

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def client(store: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=tracking_uri(store))


def history(store: str, number: str, key: str) -> dict[int, float]:
    return {each.step: each.value for each in client(store).get_metric_history(number, key)}


def test_metrics_parameters_and_tags_are_what_the_run_holds(tmp_path: Path) -> None:
    written(tmp_path / "run").write_summary({})
    store = str(tmp_path / "store")
    number = to_mlflow(tmp_path / "run", store)
    assert history(store, number, "accuracy/test") == pytest.approx({0: 0.5, 1: 0.6, 2: 0.7})
    assert history(store, number, "loss/test") == pytest.approx({0: 1.0, 2: 1 / 3})
    assert history(store, number, "clients/byzantine_kept") == {0: 1, 1: 0, 2: 0}
    assert history(store, number, "metrics/_i_loss_/i_/_/x") == {0: 2, 1: 2, 2: 2}
    run = client(store).get_run(number)
    assert run.data.params["rule.name"] == "rage"
    assert run.data.params["name"] == "<b>odd</b>"
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "run"
    assert run.info.end_time - run.info.start_time == 6_000


def test_a_second_export_adds_only_new_rounds(tmp_path: Path) -> None:
    folder = written(tmp_path / "run")
    store = str(tmp_path / "store")
    number = to_mlflow(folder.path, store)
    assert client(store).get_run(number).info.status == "RUNNING"
    assert to_mlflow(folder.path, store) == number
    folder.append(record(3))
    folder.write_summary({})
    assert to_mlflow(folder.path, store) == number
    found = client(store).get_metric_history(number, "accuracy/test")
    assert [each.step for each in found] == [0, 1, 2, 3]
    assert client(store).get_run(number).info.status == "FINISHED"


def test_many_rounds_are_sent_in_several_calls_and_none_is_lost(tmp_path: Path) -> None:
    written(tmp_path / "run", 120)
    number = to_mlflow(tmp_path / "run", str(tmp_path / "store"))
    assert list(history(str(tmp_path / "store"), number, "accuracy/test")) == list(range(120))


def test_another_configuration_in_the_same_folder_is_another_run(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    first, second = (f'[provenance]\nconfig_sha256 = "{seal}"\n' for seal in ("aa", "bb"))
    folder = written(tmp_path / "run", config=first)
    one = to_mlflow(folder.path, store)
    with_config(folder.path, second)
    assert to_mlflow(folder.path, store) != one


def test_telemetry_is_off(tmp_path: Path) -> None:
    written(tmp_path / "run")
    to_mlflow(tmp_path / "run", str(tmp_path / "store"))
    from mlflow.telemetry.utils import is_telemetry_disabled

    assert is_telemetry_disabled()
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"


def test_without_the_package_the_message_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ParameterError, match=r"pip install 'steadfed\[mlflow\]'"):
        to_mlflow(tmp_path, "store")


def test_a_database_without_what_it_takes_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steadfed.exports._mlflow.find_spec", lambda name: None if name == "sqlalchemy" else name)
    with pytest.raises(ParameterError, match=r"needs sqlalchemy; .*pip install 'steadfed\[mlflow\]'"):
        to_mlflow(tmp_path, f"sqlite:///{tmp_path}/mlflow.db")


def test_a_store_that_does_not_exist_is_named(tmp_path: Path) -> None:
    written(tmp_path / "run")
    with pytest.raises(ParameterError, match="nonsense://x"):
        to_mlflow(tmp_path / "run", "nonsense://x")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_database_is_a_store_too(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    store = f"sqlite:///{tmp_path}/mlflow.db"
    folder = written(tmp_path / "it's a run")
    number = to_mlflow(folder.path, store)
    folder.append(record(3))
    assert to_mlflow(folder.path, store) == number
    assert history(store, number, "accuracy/test") == pytest.approx({0: 0.5, 1: 0.6, 2: 0.7, 3: 0.8})
