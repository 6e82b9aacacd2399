"""Flower's object store, so that who announces an object first with made-up parts harms nobody.

The store remembers with which parts an object was announced first, and fails over everybody who announces it otherwise:
a node that can compute the id of an object of the server's next message, or of its neighbour's reply, such as a counter
or a frozen layer, could keep them from sending it. What an object consists of is a matter of its content, whose hash is
its id; so an announcement counts until the next one, and the content decides when it has come. What a server app has
announced no node can announce otherwise: it hears of the server's message before all of it has come, and the parts that
all nodes are sent are the same.

Parts that are announced anew belong to everything that the object is a part of: a few messages could make a tree of
millions, or one without end. So a tree is read level by level, and no further than `MOST_OBJECTS` and `DEEPEST`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.inflatable.inflatable_object import (
    get_object_children_ids_from_object_content,
    iterate_object_tree,
)
from flwr.supercore.object_store.object_store import NoObjectInStoreError, ObjectStore
from flwr.supercore.object_store.sql_object_store import SqlObjectStore
from flwr.supercore.state.schema.objectstore_models import ObjectChild, StoredObject
from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from steadfed.errors import RunError

MOST_OBJECTS = 50_000
"""Objects that a message may have, each counted as often as it is listed."""
DEEPEST = 8
"""Levels of objects in a message; Flower's own have five: message, records, record, array, chunk."""
_AT_ONCE = 500
"""Objects that the database is asked for in one question."""
_for_server: ContextVar[bool] = ContextVar("for_server", default=False)
_of_server: set[str] = set()
"""Objects that server apps have announced, until they come."""


@contextmanager
def announced_by_server() -> Iterator[None]:
    """Take what is announced meanwhile for the words of a server app."""
    token = _for_server.set(True)
    try:
        yield
    finally:
        _for_server.reset(token)


def is_whole(store: ObjectStore, object_id: str) -> bool:
    """Return whether an object and all its parts have come; also if there is no such object."""
    if object_id not in store:
        return True
    try:
        tree = store.get_object_tree(object_id)
    except NoObjectInStoreError:
        return False
    objects = sorted({node.object_id for node in iterate_object_tree(tree)})
    if not isinstance(store, SqlObjectStore):
        return all(store.get(each) for each in objects)
    awaited = select(StoredObject.object_id).where(StoredObject.is_available == 0)
    with store.session() as session:  # which looks at no content
        return not any(session.scalar(awaited.where(StoredObject.object_id.in_(some))) for some in _portions(objects))


def let_contents_decide() -> None:
    """Change three methods of Flower's store, for this process.

    Raises:
        RunError: this version of Flower keeps objects otherwise.
    """
    wanted = ("preregister", "put", "get_object_tree", "_mutation_session")
    missing = [name for name in wanted if not hasattr(SqlObjectStore, name)]
    if missing:
        raise RunError(f"this version of Flower keeps objects otherwise: its store has no {', '.join(missing)}")
    methods = {
        "preregister": _preregister(SqlObjectStore.preregister),
        "put": _put(SqlObjectStore.put),
        "get_object_tree": _get_object_tree,
    }
    for name, method in methods.items():
        setattr(SqlObjectStore, name, method)


def _preregister(original: Callable[..., list[str]]) -> Callable[..., list[str]]:
    def preregister(store: SqlObjectStore, run_id: int, object_tree: ObjectTree) -> list[str]:
        with store._mutation_session() as session:  # noqa: SLF001  Flower has no other way to do several things at once
            for node in iterate_object_tree(object_tree):
                parts = {child.object_id for child in node.children}
                if _parts(session, node.object_id) != parts and _may_have(session, node.object_id, parts):
                    for child in node.children:
                        original(store, run_id, child)
                    _replace_parts(session, node.object_id, parts)
            new = original(store, run_id, object_tree)
        if _for_server.get():
            _of_server.update(new)
        return new

    return preregister


def _put(original: Callable[..., None]) -> Callable[..., None]:
    def put(store: SqlObjectStore, object_id: str, object_content: bytes) -> None:
        original(store, object_id, object_content)  # which has compared the hash
        _of_server.discard(object_id)
        parts = set(get_object_children_ids_from_object_content(object_content))
        with store.session() as session:
            if _parts(session, object_id) == parts:
                return
        with store._mutation_session() as session:  # noqa: SLF001
            known = set(session.scalars(select(StoredObject.object_id).where(StoredObject.object_id.in_(parts))))
            if known == parts:  # or whoever uploads it has not announced all of it
                _replace_parts(session, object_id, parts)

    return put


def _may_have(session: Session, object_id: str, parts: set[str]) -> bool:
    """Return whether an object may consist of these parts: those of its content, or any before it has come.

    Before it has come, what a server app has said of it counts more than what a node says.
    """
    if session.scalar(select(StoredObject.is_available).where(StoredObject.object_id == object_id)) == 0:
        return _for_server.get() or object_id not in _of_server
    content = session.scalar(select(StoredObject.content).where(StoredObject.object_id == object_id))
    return content is not None and set(get_object_children_ids_from_object_content(content)) == parts


def _get_object_tree(store: SqlObjectStore, object_id: str) -> ObjectTree:
    """Return an object with all its parts; where one is missing or there are too many there is no tree."""
    parts: dict[str, list[str]] = {}
    level = {object_id}
    with store.session() as session:
        while level:
            if len(parts) + len(level) > MOST_OBJECTS:
                raise _too_many(object_id)
            found = _parts_of_all(session, level)
            parts |= found
            level = {part for listed in found.values() for part in listed} - parts.keys()
    return _built(object_id, parts, iter(range(MOST_OBJECTS)))


def _built(object_id: str, parts: Mapping[str, list[str]], left: Iterator[int], depth: int = 1) -> ObjectTree:
    if depth > DEEPEST or next(left, None) is None:
        raise _too_many(object_id)
    return ObjectTree(object_id=object_id, children=[_built(each, parts, left, depth + 1) for each in parts[object_id]])


def _parts_of_all(session: Session, objects: Iterable[str]) -> dict[str, list[str]]:
    parts: dict[str, list[str]] = {}
    asked = sorted(objects)
    for some in _portions(asked):
        known = set(session.scalars(select(StoredObject.object_id).where(StoredObject.object_id.in_(some))))
        parts |= {each: [] for each in some if each in known}
        pairs = select(ObjectChild.parent_id, ObjectChild.child_id).where(ObjectChild.parent_id.in_(some))
        for parent, child in session.execute(pairs):
            parts.setdefault(parent, []).append(child)
    missing = [each for each in asked if each not in parts]
    if missing:
        raise NoObjectInStoreError(f"Object {missing[0]} was not pre-registered.")
    return parts


def _portions(objects: list[str]) -> Iterator[list[str]]:
    """Yield them in lists that a question to the database can hold."""
    for start in range(0, len(objects), _AT_ONCE):
        yield objects[start : start + _AT_ONCE]


def _too_many(object_id: str) -> NoObjectInStoreError:
    return NoObjectInStoreError(
        f"Object {object_id} belongs to a message with more than {MOST_OBJECTS} objects, or more than {DEEPEST} levels."
    )


def _parts(session: Session, object_id: str) -> set[str]:
    return set(session.scalars(select(ObjectChild.child_id).where(ObjectChild.parent_id == object_id)))


def _replace_parts(session: Session, object_id: str, parts: Iterable[str]) -> None:
    """Let an object consist of other parts, which are in the store."""
    _count(session, _parts(session, object_id), -1)
    session.execute(delete(ObjectChild).where(ObjectChild.parent_id == object_id))
    for part in parts:
        session.execute(insert(ObjectChild).values(parent_id=object_id, child_id=part))
    _count(session, parts, 1)


def _count(session: Session, objects: Iterable[str], step: int) -> None:
    """Change of how many others the objects are said to be a part."""
    counted: Any = StoredObject.ref_count
    for each in objects:
        session.execute(update(StoredObject).where(StoredObject.object_id == each).values(ref_count=counted + step))
