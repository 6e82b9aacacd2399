"""Flower's object store behind the door: made-up parts of an object harm nobody, whoever announces them when."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_id,
    get_object_tree,
    iterate_object_tree,
)
from flwr.supercore.object_store.sql_object_store import SqlObjectStore
from tests.flower.grids import identify
from torch import nn

from steadfed.errors import RunError
from steadfed.flower._object_store import let_contents_decide
from steadfed.flower.client import evaluate_reply, train_reply

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


def message_about(round: str) -> Message:
    """Return a message that has nothing in common with those about other rounds."""
    identify()
    arrays = ArrayRecord(
        [np.frombuffer(round.encode().ljust(16), np.float64), np.frombuffer(round.encode().ljust(16), np.float32)]
    )
    sent = Message(RecordDict({"arrays": arrays, "config": ConfigRecord({"round": round})}), 7, "train")
    sent.metadata.__dict__["_message_id"] = sent.object_id
    return sent


def poison(message: Message, kind: str) -> ObjectTree:
    """Return an announcement of the first object of a kind with a part that it does not have."""
    contents = {object_id: each.deflate() for object_id, each in get_all_nested_objects(message).items()}
    foreseen = next(each for each, content in contents.items() if content.startswith(kind.encode() + b" "))
    made_up = ObjectTree(object_id=get_object_id(foreseen.encode()))
    root = get_object_id(made_up.object_id.encode())
    return ObjectTree(object_id=root, children=[ObjectTree(object_id=foreseen, children=[made_up])])


def upload(store: SqlObjectStore, message: Message) -> None:
    for object_id, each in get_all_nested_objects(message).items():
        store.put(object_id, each.deflate())


def ids(tree: ObjectTree) -> list[tuple[str, list[str]]]:
    return sorted(
        (each.object_id, sorted(child.object_id for child in each.children)) for each in iterate_object_tree(tree)
    )


KINDS = ["Message", "RecordDict", "ArrayRecord", "Array", "ArrayChunk", "ConfigRecord"]


def test_flowers_own_store_fails_over_what_was_announced_with_other_parts(store: SqlObjectStore) -> None:
    for kind in KINDS:
        message = message_about(kind)
        store.preregister(RUN, poison(message, kind))
        with pytest.raises(ValueError, match="preregistered with different children"):
            store.preregister(RUN, get_object_tree(message))


def test_what_was_announced_with_made_up_parts_can_be_sent(store: SqlObjectStore) -> None:
    let_contents_decide()
    for kind in KINDS:
        message = message_about(kind)
        tree = get_object_tree(message)
        store.preregister(RUN, poison(message, kind))
        assert {object_id for object_id, _ in ids(tree)} == set(store.preregister(RUN, tree))
        upload(store, message)
        assert ids(store.get_object_tree(message.object_id)) == ids(tree)


def test_made_up_parts_that_are_announced_before_the_content_has_come_are_forgotten_when_it_comes(
    store: SqlObjectStore,
) -> None:
    let_contents_decide()
    for kind in KINDS:
        message = message_about(kind)
        tree = get_object_tree(message)
        store.preregister(RUN, tree)
        store.preregister(RUN, poison(message, kind))
        upload(store, message)
        assert ids(store.get_object_tree(message.object_id)) == ids(tree)


def test_made_up_parts_of_what_has_come_are_refused(store: SqlObjectStore) -> None:
    let_contents_decide()
    message = message_about("one")
    store.preregister(RUN, get_object_tree(message))
    upload(store, message)
    with pytest.raises(ValueError, match="preregistered with different children"):
        store.preregister(RUN, poison(message, "ConfigRecord"))


@pytest.mark.parametrize("first", [True, False])
def test_nothing_is_lost_or_left_when_messages_are_deleted(first: bool, store: SqlObjectStore) -> None:
    let_contents_decide()
    for kind in KINDS[1:]:  # nobody can foresee a whole message
        message = message_about(kind)
        trees = [poison(message, kind), get_object_tree(message)]
        for tree in trees if first else trees[::-1]:
            store.preregister(RUN, tree)
        upload(store, message)
        store.delete(trees[0].object_id)
        assert ids(store.get_object_tree(message.object_id)) == ids(get_object_tree(message))
        store.delete(message.object_id)
        assert message.object_id not in store
    assert len(store) <= len(KINDS)  # made-up parts, until the run ends


def replies(config: ConfigRecord) -> list[Message]:
    """Return what a client sends that has trained nothing but counts its points, and what it sends when it evaluates.

    Frozen layers stay as everybody knows them, and points and losses can be guessed.
    """
    identify()
    model, batch = nn.BatchNorm1d(2), (torch.eye(2), torch.zeros(2, dtype=torch.long))
    arrays = ArrayRecord(model.state_dict())
    train, evaluate = (
        Message(RecordDict({"arrays": arrays, "config": config}), 7, kind) for kind in ("train", "evaluate")
    )
    return [train_reply(train, model, num_examples=12), evaluate_reply(evaluate, model, [batch])]


def foreseen(reply: Message) -> list[ObjectTree]:
    """Return announcements of every record, array and chunk of a reply with a part that it does not have."""
    objects = get_all_nested_objects(reply).values()
    found = {each.deflate().partition(b" ")[0].decode() for each in objects}
    return [poison(reply, kind) for kind in sorted(found - {"Message", "RecordDict"})]


@pytest.mark.parametrize("kind", [0, 1], ids=["train", "evaluate"])
def test_replies_can_be_sent_whatever_a_neighbour_has_foreseen_without_a_door(kind: int, store: SqlObjectStore) -> None:
    config = ConfigRecord({"steadfed-secret": "drawn by the server"})
    guessed, sent = replies(config)[kind], replies(config)[kind]
    for announced in foreseen(guessed):
        store.preregister(RUN, announced)
    store.preregister(RUN, get_object_tree(sent))
    upload(store, sent)
    assert ids(store.get_object_tree(sent.object_id)) == ids(get_object_tree(sent))
    own = {object_id for object_id, _ in ids(get_object_tree(sent))}
    assert own.isdisjoint(object_id for object_id, _ in ids(get_object_tree(guessed)))


def test_it_is_refused_where_flower_keeps_objects_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(SqlObjectStore, "_mutation_session")
    with pytest.raises(RunError, match="its store has no _mutation_session"):
        let_contents_decide()
