"""Flower's object store, so that who announces an object first with made-up parts harms nobody.

The store remembers with which parts an object was announced first, and fails over everybody who announces it otherwise:
a node that can compute the id of an object of the server's next message, or of its neighbour's reply, such as a counter
or a frozen layer, could keep them from sending it. What an object consists of is a matter of its content, whose hash is
its id; so an announcement counts until the next one, and the content decides when it has come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.inflatable.inflatable_object import (
    get_object_children_ids_from_object_content,
    iterate_object_tree,
)
from flwr.supercore.object_store.sql_object_store import SqlObjectStore
from flwr.supercore.state.schema.objectstore_models import ObjectChild, StoredObject
from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from steadfed.errors import RunError


def let_contents_decide() -> None:
    """Change the two methods of Flower's store, for this process.

    Raises:
        RunError: this version of Flower keeps objects otherwise.
    """
    missing = [name for name in ("preregister", "put", "_mutation_session") if not hasattr(SqlObjectStore, name)]
    if missing:
        raise RunError(f"this version of Flower keeps objects otherwise: its store has no {', '.join(missing)}")
    methods = {"preregister": _preregister(SqlObjectStore.preregister), "put": _put(SqlObjectStore.put)}
    for name, method in methods.items():
        setattr(SqlObjectStore, name, method)


def _preregister(original: Callable[..., list[str]]) -> Callable[..., list[str]]:
    def preregister(store: SqlObjectStore, run_id: int, object_tree: ObjectTree) -> list[str]:
        with store._mutation_session() as session:  # noqa: SLF001  Flower has no other way to do several things at once
            for node in iterate_object_tree(object_tree):
                parts = {child.object_id for child in node.children}
                if _is_awaited(session, node.object_id) and _parts(session, node.object_id) != parts:
                    for child in node.children:
                        original(store, run_id, child)
                    _replace_parts(session, node.object_id, parts)
            return original(store, run_id, object_tree)

    return preregister


def _put(original: Callable[..., None]) -> Callable[..., None]:
    def put(store: SqlObjectStore, object_id: str, object_content: bytes) -> None:
        original(store, object_id, object_content)  # which has compared the hash
        parts = set(get_object_children_ids_from_object_content(object_content))
        with store.session() as session:
            if _parts(session, object_id) == parts:
                return
        with store._mutation_session() as session:  # noqa: SLF001
            known = set(session.scalars(select(StoredObject.object_id).where(StoredObject.object_id.in_(parts))))
            if known == parts:  # or whoever uploads it has not announced all of it
                _replace_parts(session, object_id, parts)

    return put


def _is_awaited(session: Session, object_id: str) -> bool:
    """Return whether an object was announced and its content has not come."""
    return session.scalar(select(StoredObject.is_available).where(StoredObject.object_id == object_id)) == 0


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
