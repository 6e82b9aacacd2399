"""Flower's object store behind the door: made-up parts of an object harm nobody, whoever announces them when."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree, iterate_object_tree
from flwr.supercore.object_store.sql_object_store import SqlObjectStore
from tests.flower.grids import identify

from steadfed.errors import RunError
from steadfed.flower._object_store import let_contents_decide

pytestmark = [
    pytest.mark.usefixtures("flowers_own_superlink"),
    pytest.mark.filterwarnings("ignore:No path_separator found:DeprecationWarning"),  # Flower's use of alembic
]
RUN = 1


@pytest.fixture
def store(tmp_path: Path) -> SqlObjectStore:
    store = SqlObjectStore(str(tmp_path / "state.db"))
    store.initialize()
    return store


@pytest.fixture
def message() -> Message:
    identify()
    arrays = ArrayRecord([np.arange(3.0), np.zeros(2)])
    sent = Message(RecordDict({"arrays": arrays, "config": ConfigRecord({"round": 1})}), 7, "train")
    sent.metadata.__dict__["_message_id"] = sent.object_id
    return sent


def poison(message: Message, kind: str) -> ObjectTree:
    """Return an announcement of the first object of a kind with a part that it does not have."""
    contents = {object_id: each.deflate() for object_id, each in get_all_nested_objects(message).items()}
    foreseen = next(each for each, content in contents.items() if content.startswith(kind.encode() + b" "))
    return ObjectTree(
        object_id="a" * 64, children=[ObjectTree(object_id=foreseen, children=[ObjectTree(object_id="b" * 64)])]
    )


def upload(store: SqlObjectStore, message: Message) -> None:
    for object_id, each in get_all_nested_objects(message).items():
        store.put(object_id, each.deflate())


def ids(tree: ObjectTree) -> list[tuple[str, list[str]]]:
    return sorted(
        (each.object_id, sorted(child.object_id for child in each.children)) for each in iterate_object_tree(tree)
    )


KINDS = ["Message", "RecordDict", "ArrayRecord", "Array", "ArrayChunk", "ConfigRecord"]


@pytest.mark.parametrize("kind", KINDS)
def test_flowers_own_store_fails_over_what_was_announced_with_other_parts(
    kind: str, store: SqlObjectStore, message: Message
) -> None:
    store.preregister(RUN, poison(message, kind))
    with pytest.raises(ValueError, match="preregistered with different children"):
        store.preregister(RUN, get_object_tree(message))


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_announced_with_made_up_parts_can_be_sent(kind: str, store: SqlObjectStore, message: Message) -> None:
    let_contents_decide()
    tree = get_object_tree(message)
    store.preregister(RUN, poison(message, kind))
    assert sorted(store.preregister(RUN, tree)) == [object_id for object_id, _ in ids(tree)]
    upload(store, message)
    assert ids(store.get_object_tree(message.object_id)) == ids(tree)


@pytest.mark.parametrize("kind", KINDS)
def test_made_up_parts_that_are_announced_before_the_content_has_come_are_forgotten_when_it_comes(
    kind: str, store: SqlObjectStore, message: Message
) -> None:
    let_contents_decide()
    tree = get_object_tree(message)
    store.preregister(RUN, tree)
    store.preregister(RUN, poison(message, kind))
    upload(store, message)
    assert ids(store.get_object_tree(message.object_id)) == ids(tree)


def test_made_up_parts_of_what_has_come_are_refused(store: SqlObjectStore, message: Message) -> None:
    let_contents_decide()
    store.preregister(RUN, get_object_tree(message))
    upload(store, message)
    with pytest.raises(ValueError, match="preregistered with different children"):
        store.preregister(RUN, poison(message, "ConfigRecord"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", [True, False])
def test_nothing_is_lost_or_left_when_messages_are_deleted(
    kind: str, first: bool, store: SqlObjectStore, message: Message
) -> None:
    let_contents_decide()
    trees = [poison(message, kind), get_object_tree(message)]
    for tree in trees if first else trees[::-1]:
        store.preregister(RUN, tree)
    upload(store, message)
    store.delete("a" * 64)
    assert ids(store.get_object_tree(message.object_id)) == ids(get_object_tree(message))
    store.delete(message.object_id)
    assert message.object_id not in store
    assert len(store) <= 1  # the made-up part, until the run ends


def test_it_is_refused_where_flower_keeps_objects_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(SqlObjectStore, "_mutation_session")
    with pytest.raises(RunError, match="its store has no _mutation_session"):
        let_contents_decide()
