"""The key pair of a test federation, and a node that knows its public half."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from flwr.app import Context, RecordDict

from steadfed._core.signatures import SigningKey

KEY = SigningKey.generate()
_FOLDER = TemporaryDirectory(prefix="steadfed-keys-")  # deleted when this process ends
KEY_FILE = Path(_FOLDER.name) / "server-signing.pem"
PUBLIC_FILE = Path(_FOLDER.name) / "server-signing.pub.pem"
KEY_FILE.write_bytes(KEY.to_pem())
PUBLIC_FILE.write_bytes(KEY.public.to_pem())


def knowing(node: int = 7, *, run: int = 1, **config: Any) -> Context:
    """Return the context of a node that knows the server's key."""
    told = {key.replace("_", "-"): value for key, value in config.items()}
    return Context(run, node, {"server-key": str(PUBLIC_FILE), **told}, RecordDict(), {})


def trusting(node: int = 7, **config: Any) -> Context:
    """Return the context of a node that takes orders of anybody."""
    told = {key.replace("_", "-"): value for key, value in config.items()}
    return Context(1, node, {"unsigned-orders": True, **told}, RecordDict(), {})
