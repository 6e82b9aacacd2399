"""Flower's object store behind the door: made-up parts of an object harm nobody, whoever announces them when."""

from __future__ import annotations

from itertools import pairwise
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
from flwr.supercore.object_store.in_memory_object_store import InMemoryObjectStore
from flwr.supercore.object_store.object_store import NoObjectInStoreError
from flwr.supercore.object_store.sql_object_store import SqlObjectStore
from tests.flower.grids import identify
from torch import nn

from steadfed.errors import RunError
from steadfed.flower import _object_store
from steadfed.flower._object_store import announced_by_server, is_whole, let_contents_decide
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


@pytest.mark.parametrize("kind", KINDS)
def test_what_somebody_has_uploaded_under_made_up_parts_can_be_sent(kind: str, store: SqlObjectStore) -> None:
    let_contents_decide()
    message = message_about(kind)
    poisoned, tree = poison(message, kind), get_object_tree(message)
    foreseen = poisoned.children[0].object_id
    store.preregister(RUN, poisoned)
    store.put(foreseen, get_all_nested_objects(message)[foreseen].deflate())  # whose parts nobody has announced
    store.preregister(RUN, tree)
    upload(store, message)
    assert ids(store.get_object_tree(message.object_id)) == ids(tree)


def test_no_node_announces_otherwise_what_a_server_app_is_sending(store: SqlObjectStore) -> None:
    let_contents_decide()
    message = message_about("sent")
    tree = get_object_tree(message)
    store.preregister(RUN, poison(message, "ArrayRecord"))
    with announced_by_server():
        store.preregister(RUN, tree)
    for kind in KINDS[:4]:
        with pytest.raises(ValueError, match="preregistered with different children"):
            store.preregister(RUN, poison(message, kind))
        assert ids(store.get_object_tree(message.object_id)) == ids(tree)  # what its receivers are told meanwhile
    upload(store, message)
    assert ids(store.get_object_tree(message.object_id)) == ids(tree)


def test_a_message_is_whole_when_all_of_it_has_come(store: SqlObjectStore) -> None:
    let_contents_decide()
    message = message_about("sent")
    store.preregister(RUN, get_object_tree(message))
    *parts, last = get_all_nested_objects(message).items()
    for object_id, each in parts:
        store.put(object_id, each.deflate())
        assert not is_whole(store, message.object_id)
    store.put(last[0], last[1].deflate())
    assert is_whole(store, message.object_id)
    assert is_whole(store, get_object_id(b"nothing"))


def test_a_tree_that_cannot_be_told_is_not_whole(store: SqlObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_object_store, "MOST_OBJECTS", 2)
    let_contents_decide()
    tree = made_up("root", "one", "two")
    store.preregister(RUN, tree)
    assert not is_whole(store, tree.object_id)


def test_objects_in_memory_are_whole_when_all_have_come() -> None:
    store = InMemoryObjectStore()
    message = message_about("sent")
    store.preregister(RUN, get_object_tree(message))
    assert not is_whole(store, message.object_id)
    for object_id, each in get_all_nested_objects(message).items():
        store.put(object_id, each.deflate())
    assert is_whole(store, message.object_id)


def made_up(name: str, *parts: str) -> ObjectTree:
    """Return an announcement of an object with parts, of which nothing but names exists."""
    names = [get_object_id(each.encode()) for each in (name, *parts)]
    return ObjectTree(object_id=names[0], children=[ObjectTree(object_id=each) for each in names[1:]])


def test_a_tree_that_small_announcements_made_large_is_none(
    store: SqlObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_object_store, "MOST_OBJECTS", 100)
    let_contents_decide()
    wide = [[f"{level}-{each}" for each in range(3)] for level in range(5)]
    root = made_up("root", *wide[0])
    store.preregister(RUN, root)
    for above, below in pairwise(wide[:4]):
        for each in above:
            store.preregister(RUN, made_up(each, *below))
    with pytest.raises(NoObjectInStoreError, match="more than 100 objects"):  # 1 + 3 + 9 + 27 + 81
        store.get_object_tree(root.object_id)
    assert len(ids(store.get_object_tree(made_up(wide[0][0]).object_id))) == 1 + 3 + 9 + 27


def test_more_objects_than_a_message_may_have_are_not_looked_up(
    store: SqlObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_contents_decide()
    tree = made_up("root", *(str(each) for each in range(20)))
    store.preregister(RUN, tree)
    assert ids(store.get_object_tree(tree.object_id)) == ids(tree)
    monkeypatch.setattr(_object_store, "MOST_OBJECTS", 20)
    with pytest.raises(NoObjectInStoreError, match="more than 20 objects"):
        store.get_object_tree(tree.object_id)


def test_a_tree_that_holds_itself_is_none(store: SqlObjectStore) -> None:
    let_contents_decide()
    ring = get_object_id(b"anything")
    content = f"RecordDict {ring} 0".encode() + b"\0"
    listing = ObjectTree(object_id=ring, children=[ObjectTree(object_id=get_object_id(content))])
    store.preregister(RUN, listing)
    store.put(get_object_id(content), content)
    with pytest.raises(NoObjectInStoreError, match="more than 8 levels"):
        store.get_object_tree(ring)


def test_a_tree_of_what_nobody_announced_is_none(store: SqlObjectStore) -> None:
    let_contents_decide()
    with pytest.raises(NoObjectInStoreError, match="was not pre-registered"):
        store.get_object_tree(get_object_id(b"nothing"))


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
