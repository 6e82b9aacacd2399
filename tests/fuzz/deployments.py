"""What reads the folder of a deployment and the keys of a federation."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from tests.fuzz.folders import Scratch
from tests.fuzz.harness import Harness, Reader, promise

from steadfed.errors import ParameterError, RunError, UnknownNameError


def _states() -> Iterator[bytes]:
    process = {"port": 9000, "pid": 17, "created": 1.5, "log_start": 0}
    node = {"process": process, "config": {"name": "a", "partition-id": 0}, "registered": True, "node_id": 2**63}
    state = {"version": 2, "secure": True, "marker": "m", "superlink": process, "superexec": process, "nodes": [node]}
    yield json.dumps(state).encode()
    yield json.dumps(state | {"version": 1}).encode()
    yield json.dumps(state).encode().replace(b"17", b"9" * 400)
    yield b"[" * 3000


def _read_states() -> Reader:
    from steadfed.deploy._folder import DeploymentFolder

    scratch = Scratch()
    folder = DeploymentFolder(scratch.path)

    def read(data: bytes) -> None:
        scratch.file("state.json", data)
        state = folder.state()
        promise(state is not None and state.version == 2, "another version")
        if state is not None:
            json.dumps(state.model_dump())
            state.processes()
            promise(all(0 < port < 65536 for port in state.ports), "a port that is none")

    return read


def _keys() -> Iterator[bytes]:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from steadfed._core.signatures import SigningKey

    key = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
    yield key.public.to_pem()
    yield key.to_pem()
    yield b"-----BEGIN PUBLIC KEY-----\n\x1b[2J\n-----END PUBLIC KEY-----\n"


def _read_keys() -> Reader:
    from steadfed._core.signatures import SigningKey, VerificationKey

    scratch = Scratch()

    def read(data: bytes) -> None:
        path = scratch.file("key.pem", data)
        key: Any
        try:
            key = VerificationKey.read(path)
        except ParameterError as error:
            promise(str(error).isprintable() or "\n" in str(error), "a refusal that acts on a terminal")
            key = SigningKey.read(path).public
        promise(
            len(key.keyid) == 64 and VerificationKey.of_text(key.to_pem().decode()).keyid == key.keyid, "another key"
        )

    return read


def _certificates() -> Iterator[bytes]:
    from steadfed.deploy._certificates import make_certificates

    scratch = Scratch()
    yield make_certificates(scratch.path / "tls").server.read_bytes()
    yield b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def _read_certificates() -> Reader:
    from steadfed.deploy._certificates import Certificates

    scratch = Scratch()
    files = Certificates(scratch.path)

    def read(data: bytes) -> None:
        for name in ("ca.crt", "server.pem"):
            scratch.file(name, data)
        files.check(["localhost", "127.0.0.1"])

    return read


def _read_apps() -> Reader:
    from steadfed.deploy._submission import app_config

    scratch = Scratch()

    def read(data: bytes) -> None:
        scratch.file("pyproject.toml", data)
        json.dumps(list(app_config(scratch.path)))

    return read


def _read_answers() -> Reader:
    from steadfed.deploy._flower_commands import answer

    def read(data: bytes) -> None:
        text = data.decode(errors="replace")
        promise(bool(answer(["list"], text, text)["success"]), "no success")

    return read


def _answers() -> list[bytes]:
    return [
        b'Loading {"success": true, "run-id": 16251765355512388824}',
        b'{"success": false, "error-message": "no"}',
        b"[{" * 2000 + b"}",
        b'{"success": ' + b"9" * 5000 + b"}",
    ]


def _waiting() -> list[bytes]:
    from steadfed.server._waiting import Note, Waiting

    erfurt = Waiting(round=3, asked=6, replied=4, missing=("Erfurt", 7), seconds_left=31.5, what="evaluation")
    text = json.dumps(Note(waiting=erfurt, at=time.monotonic()).model_dump())
    return [text.encode(), text.replace("31.5", "1e999").encode(), b"[" * 3000, b'{"self": 1}']


def _read_waiting() -> Reader:
    from steadfed.server._waiting import WAITING, read_waiting

    scratch = Scratch()

    def read(data: bytes) -> None:
        scratch.file(WAITING, data)
        found = read_waiting(scratch.path)
        promise(found is None or found.words.isprintable(), "words that act on a terminal")

    return read


DEPLOYMENTS = (
    Harness(
        name="waiting",
        reader=_read_waiting,
        seeds=_waiting,
        refusals=(),
        words=('"round":', '"missing":[]', "1e999", "-1", "null", "true", "\\u001b"),
    ),
    Harness(
        name="deployment-state",
        reader=_read_states,
        seeds=_states,
        refusals=(RunError,),
        words=('"port":', '"pid":', '"nodes":[]', "1e999", "-1", "null", "true"),
    ),
    Harness(name="key", reader=_read_keys, seeds=_keys, refusals=(ParameterError,), words=("-----BEGIN ", "KEY-----")),
    Harness(name="certificate", reader=_read_certificates, seeds=_certificates, refusals=(RunError,)),
    Harness(
        name="app-project",
        reader=_read_apps,
        seeds=lambda: [b"[tool.flwr.app.config]\nrounds = 3\nrule.name = 'rage'\n", b"tool = 3", b"[tool]\nflwr = 3\n"],
        refusals=(ParameterError, UnknownNameError),
        words=("[tool.flwr.app]", "config = ", "tool", "flwr", "app", ".", "=", "["),
    ),
    Harness(
        name="flower-answer",
        reader=_read_answers,
        seeds=_answers,
        refusals=(RunError,),
        words=('"success": true', '"error-message":', "{", "}", "[", "1e999"),
    ),
)
