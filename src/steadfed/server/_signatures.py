"""Signatures of the lines of a run, in a file of their own beside them: the n-th belongs to the n-th line.

Detached, so that a line is the same with and without one. What is signed is what an envelope (DSSE) of the line signs,
so the two together are such an envelope, and it can be handed to somebody who has nothing else.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from steadfed._core.durable import append_lines, last_line, whole_lines
from steadfed._core.signatures import Envelope, SigningKey, VerificationKey
from steadfed.errors import CorruptRunError, ParameterError, SignatureError
from steadfed.server._reading import content_of

if TYPE_CHECKING:
    from steadfed.server._folder import RunFolder

ROUND_TYPE = "application/vnd.steadfed.round+json"
"""The type of a line as a statement: it is no order, whatever it says."""
INCIDENT_TYPE = "application/vnd.steadfed.incident+json"
"""The type of an incident report as a statement."""
PUBLIC_KEY = "server-signing.pub.pem"
"""The file of the key's public half in the folder of a run."""
SERVER_KEY = "server_key"
"""The key of [provenance] with the name of the key that signs the lines."""
_LONGEST = 1000
"""Bytes of the line of a signature."""


def append_signature(path: Path, key: SigningKey, line: bytes) -> None:
    """Sign a line of the run, without its end; the signature is on disk when this returns.

    Raises:
        OSError: it could not be written, or the last one was torn by a crash.
    """
    if (last := last_line(path)) and not last.endswith(b"\n"):
        raise OSError(0, f"{path.name} ends in the middle of a line; rewind the run to its last checkpoint first")
    append_lines(path, _rendered(key.public.keyid, key.sign(ROUND_TYPE, line)))


def envelopes(lines: Path, signatures: Path) -> Iterator[Envelope]:
    """Yield every line that is signed with its signature; nothing is believed before `Envelope.open`.

    Raises:
        CorruptRunError: a line is no signature, or there are more signatures than lines.
    """
    try:
        texts = whole_lines(lines)
        for number, written in enumerate(whole_lines(signatures), 1):
            if (line := next(texts, None)) is None:
                raise CorruptRunError(
                    f"{signatures} holds more signatures than the {number - 1} lines of {lines.name}: lines were "
                    f"removed after they had been signed; restore both files from a copy"
                )
            yield _envelope(line.removesuffix(b"\n"), written, f"line {number} of {signatures}")
    except OSError as error:
        raise CorruptRunError(f"{error.filename or signatures} cannot be read: {error.strerror}") from None


def key_in(folder: RunFolder) -> VerificationKey:
    """Return the key that lies in the folder of a run; `CorruptRunError` if there is none."""
    try:
        return VerificationKey.of_text(content_of(folder.public_key).decode("ascii", "replace"))
    except ParameterError as error:
        raise CorruptRunError(f"{folder.public_key} holds no key: {error}") from None


def check_signed(folder: RunFolder, key: VerificationKey) -> int:
    """Return how many lines of a run are signed with a key: the first ones, all but those after a crash.

    Raises:
        CorruptRunError: a line is signed otherwise, or the folder names another key.
    """
    if content_of(folder.public_key) != key.to_pem():
        raise CorruptRunError(f"{folder.public_key} is not the key that the run was started with; put it back")
    keyid, number = key.keyid, 0
    for number, envelope in enumerate(envelopes(folder.rounds, folder.signatures), 1):
        try:
            envelope.open(key, ROUND_TYPE)
            names_it = envelope.keyid == keyid
        except SignatureError:
            names_it = False
        if not names_it:
            raise CorruptRunError(
                f"line {number} of {folder.rounds} is not the one that the server signed: it or its signature was "
                f"changed. The {number - 1} before it are whole; restore both files from a copy"
            )
    return number


def _envelope(line: bytes, written: bytes, where: str) -> Envelope:
    try:
        table = json.loads(written[:_LONGEST])
        keyid, signature = str(table["keyid"]), base64.b64decode(table["sig"], validate=True)
    except (ValueError, TypeError, KeyError, RecursionError, binascii.Error) as error:
        raise CorruptRunError(f"{where} is no signature: {error!r}; restore the file from a copy") from None
    if _rendered(keyid, signature) != written:
        raise CorruptRunError(f"{where} is not written as signatures are; restore the file from a copy")
    return Envelope(ROUND_TYPE, line, keyid, signature)


def _rendered(keyid: str, signature: bytes) -> bytes:
    """Return the line of a signature; there is one way to write it, so that no letter of it changes unnoticed."""
    table = {"keyid": keyid, "sig": base64.b64encode(signature).decode()}
    return json.dumps(table, separators=(",", ":")).encode() + b"\n"
