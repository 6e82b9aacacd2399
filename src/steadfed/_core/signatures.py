"""Statements signed with Ed25519, in envelopes of an existing format: DSSE, the Dead Simple Signing Envelope, v1.

What is signed is never the bytes alone but PAE(type, payload) = "DSSEv1" SP |type| SP type SP |payload| SP payload,
with lengths as decimal numbers of bytes. So a signature over one kind of statement is none over another kind,
whatever the bytes. Format: https://github.com/secure-systems-lab/dsse, protocol.md and envelope.md.

Keys are files: the private half PKCS8, the public half SubjectPublicKeyInfo, both PEM. A key is named by the SHA-256 of
its 32 public bytes. The package `cryptography` is imported when it is needed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, final

from steadfed.errors import ParameterError, SignatureError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

MOST_BYTES = 64 * 1024 * 1024
"""Bytes that an envelope may take; a larger one is not decoded."""
_KEY_BYTES = 10_000
"""Bytes that the file of a key may take."""
_SIGNATURE_BYTES = 64


@final
@dataclass(frozen=True, eq=False)
class VerificationKey:
    """The public half of a key: tells whether a statement was signed with the private one."""

    _key: Ed25519PublicKey

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a public key from a PEM file.

        Raises:
            ParameterError: the file cannot be read, or holds no Ed25519 public key.
        """
        return cls._of_pem(_read_key(Path(path)), repr(str(path)))

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Return the key that a PEM text holds, such as a node is told."""
        return cls._of_pem(text.encode(), "the text")

    @classmethod
    def _of_pem(cls, pem: bytes, where: str) -> Self:
        ed25519, serialization = _cryptography()
        try:
            key = serialization.load_pem_public_key(pem)
        except Exception as error:  # noqa: BLE001  cryptography raises what its parsers raise
            raise ParameterError(f"{where} must hold a public key in PEM, got {_shown(pem)}: {error}") from None
        if not isinstance(key, ed25519.Ed25519PublicKey):
            raise ParameterError(f"{where} must hold an Ed25519 public key, got {type(key).__name__}")
        return cls(key)

    @property
    def keyid(self) -> str:
        """The name of the key: the SHA-256 of its 32 bytes, in hexadecimal."""
        return hashlib.sha256(self._key.public_bytes_raw()).hexdigest()

    def to_pem(self) -> bytes:
        """Return the key as the content of a PEM file."""
        _, serialization = _cryptography()
        pem: bytes = self._key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        return pem

    def is_signed(self, payload_type: str, payload: bytes, signature: bytes) -> bool:
        """Return whether the signature is one of this key over a statement of this type."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(signature, pre_authentication_encoding(payload_type, payload))
        except InvalidSignature:
            return False
        return True


@final
@dataclass(frozen=True, eq=False)
class SigningKey:
    """The private half of a key."""

    _key: Ed25519PrivateKey

    @classmethod
    def generate(cls) -> Self:
        """Make a new key."""
        ed25519, _ = _cryptography()
        return cls(ed25519.Ed25519PrivateKey.generate())

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a private key from a PEM file.

        Raises:
            ParameterError: the file cannot be read, or holds no Ed25519 private key without a pass phrase.
        """
        ed25519, serialization = _cryptography()
        pem, where = _read_key(Path(path)), repr(str(path))
        try:
            key = serialization.load_pem_private_key(pem, password=None)
        except Exception as error:  # noqa: BLE001  cryptography raises what its parsers raise
            raise ParameterError(f"{where} must hold a private key in PEM, without a pass phrase: {error}") from None
        if not isinstance(key, ed25519.Ed25519PrivateKey):
            raise ParameterError(f"{where} must hold an Ed25519 private key, got {type(key).__name__}")
        return cls(key)

    @property
    def public(self) -> VerificationKey:
        """The half that everybody may have."""
        return VerificationKey(self._key.public_key())

    def to_pem(self) -> bytes:
        """Return the key as the content of a PEM file."""
        _, serialization = _cryptography()
        pem: bytes = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return pem

    def sign(self, payload_type: str, payload: bytes) -> bytes:
        """Return the 64 bytes of the signature over a statement of a type."""
        return self._key.sign(pre_authentication_encoding(payload_type, payload))

    def seal(self, payload_type: str, payload: bytes) -> Envelope:
        """Return a statement with its signature."""
        return Envelope(payload_type, payload, self.public.keyid, self.sign(payload_type, payload))


@final
@dataclass(frozen=True)
class Envelope:
    """A statement, its type and one signature.

    >>> key = SigningKey.generate()
    >>> envelope = key.seal("application/vnd.example+json", b"{}")
    >>> Envelope.from_json(envelope.to_json()).open(key.public, "application/vnd.example+json")
    b'{}'
    >>> envelope.open(SigningKey.generate().public, "application/vnd.example+json")
    Traceback (most recent call last):
        ...
    steadfed.errors.SignatureError: the statement is not signed with the key that is trusted
    """

    payload_type: str
    payload: bytes
    keyid: str
    """A hint which key it was; only `open` tells whether it was."""
    signature: bytes

    def open(self, key: VerificationKey, payload_type: str) -> bytes:
        """Return the statement, if it is of this type and signed with the key.

        Raises:
            SignatureError: it is of another type, or not signed with the key.
        """
        if self.payload_type != payload_type:
            raise SignatureError(f"the statement must be of type {payload_type!r}, got {self.payload_type[:80]!r}")
        if not key.is_signed(payload_type, self.payload, self.signature):
            raise SignatureError("the statement is not signed with the key that is trusted")
        return self.payload

    def to_json(self) -> str:
        """Return the envelope as DSSE writes it."""
        table = {
            "payload": base64.b64encode(self.payload).decode(),
            "payloadType": self.payload_type,
            "signatures": [{"keyid": self.keyid, "sig": base64.b64encode(self.signature).decode()}],
        }
        return json.dumps(table, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the envelope that a text holds; what it says is not believed before `open`.

        Raises:
            SignatureError: the text is no envelope with one signature.
        """
        if len(text) > MOST_BYTES:
            raise SignatureError(f"an envelope may take {MOST_BYTES} bytes, got {len(text)}")
        try:
            table = json.loads(text)
            (signed,) = table["signatures"]
            payload_type, keyid = table["payloadType"], signed.get("keyid", "")
            payload, signature = (base64.b64decode(each, validate=True) for each in (table["payload"], signed["sig"]))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, binascii.Error) as error:
            raise SignatureError(f"not a DSSE envelope with one signature: {type(error).__name__}") from None
        if not isinstance(payload_type, str) or not isinstance(keyid, str) or len(signature) != _SIGNATURE_BYTES:
            raise SignatureError("not a DSSE envelope with one Ed25519 signature")
        return cls(payload_type, payload, keyid, signature)


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """Return PAE(type, payload): what is signed.

    >>> pre_authentication_encoding("http://example.com/HelloWorld", b"hello world")
    b'DSSEv1 29 http://example.com/HelloWorld 11 hello world'
    """
    kind = payload_type.encode()
    return b" ".join([b"DSSEv1", str(len(kind)).encode(), kind, str(len(payload)).encode(), payload])


def _read_key(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_KEY_BYTES)
    except (OSError, ValueError) as error:  # a path with a zero byte is a ValueError
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ParameterError(f"cannot read the key {str(path)!r}: {reason}") from None


def _shown(pem: bytes) -> str:
    """Return the first line of what is no public key, as a message shows it: the message goes to the server."""
    line = pem.decode("ascii", "replace").strip().partition("\n")[0]
    return repr(line[:60]) if line.startswith("-----BEGIN ") else f"{len(pem)} bytes of something else"


def _cryptography() -> tuple[Any, Any]:
    """Return cryptography's modules for Ed25519 and for files of keys."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise ParameterError(
            f"signatures need the package cryptography: pip install 'steadfed[flower]' ({error})"
        ) from None
    return ed25519, serialization
