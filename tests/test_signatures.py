"""Signed statements: the format's own test vector, and everything that must not open."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from steadfed._core.signatures import Envelope, SigningKey, VerificationKey, pre_authentication_encoding
from steadfed.errors import ParameterError, SignatureError, SteadfedError

KIND = "application/vnd.example+json"
KEY = SigningKey.generate()


def test_a_statement_opens_with_the_key_that_signed_it_and_with_no_other() -> None:
    envelope = Envelope.from_json(KEY.seal(KIND, b"so").to_json())
    assert envelope.open(KEY.public, KIND) == b"so"
    assert envelope.keyid == KEY.public.keyid
    with pytest.raises(SignatureError, match="not signed"):
        envelope.open(SigningKey.generate().public, KIND)


def test_a_statement_of_one_kind_is_none_of_another() -> None:
    signature = KEY.sign(KIND, b"so")
    assert not KEY.public.is_signed(f"{KIND} ", b"so", signature)
    with pytest.raises(SignatureError, match="must be of type"):
        KEY.seal(KIND, b"so").open(KEY.public, "application/json")


def test_types_and_payloads_cannot_be_shifted_into_each_other() -> None:
    assert pre_authentication_encoding("a b", b"c") != pre_authentication_encoding("a", b"b c")


@given(st.integers(0, 63), st.integers(0, 7))
def test_a_flipped_bit_of_the_signature_is_found(byte: int, bit: int) -> None:
    signature = bytearray(KEY.sign(KIND, b"so"))
    signature[byte] ^= 1 << bit
    assert not KEY.public.is_signed(KIND, b"so", bytes(signature))


@given(st.binary(min_size=1, max_size=60), st.integers(0, 479))
def test_a_flipped_bit_of_the_statement_is_found(payload: bytes, place: int) -> None:
    changed = bytearray(payload)
    changed[place // 8 % len(payload)] ^= 1 << place % 8
    assert not KEY.public.is_signed(KIND, bytes(changed), KEY.sign(KIND, payload))


NO_ENVELOPES = [
    b"",
    b"\xff",
    b"[]",
    b"{}",
    b"[" * 100_000,
    b"1" * 5_000,
    json.dumps({"payload": "", "payloadType": KIND, "signatures": []}).encode(),
    json.dumps({"payload": "", "payloadType": KIND, "signatures": ["sig"]}).encode(),
    json.dumps({"payload": "", "payloadType": KIND, "signatures": [{"sig": "AA=="}]}).encode(),
    json.dumps({"payload": "*", "payloadType": KIND, "signatures": [{"sig": ""}]}).encode(),
    json.dumps({"payload": "ä", "payloadType": KIND, "signatures": [{"sig": ""}]}).encode(),
    json.dumps(
        {"payload": "", "payloadType": 1, "signatures": [{"sig": base64.b64encode(bytes(64)).decode()}]}
    ).encode(),
]


@pytest.mark.parametrize("text", NO_ENVELOPES)
def test_what_is_no_envelope_is_refused(text: bytes) -> None:
    with pytest.raises(SignatureError, match="not a DSSE envelope"):
        Envelope.from_json(text)


@given(st.binary(max_size=300))
def test_bytes_are_an_envelope_or_refused(text: bytes) -> None:
    with pytest.raises(SteadfedError):
        Envelope.from_json(text).open(KEY.public, KIND)


def test_keys_come_back_from_their_files(tmp_path: Path) -> None:
    private, public = tmp_path / "private", tmp_path / "public"
    private.write_bytes(KEY.to_pem())
    public.write_bytes(KEY.public.to_pem())
    signature = SigningKey.read(private).sign(KIND, b"so")
    assert VerificationKey.read(public).is_signed(KIND, b"so", signature)
    assert VerificationKey.of_text(public.read_text()).keyid == KEY.public.keyid


def test_files_that_hold_no_key_are_refused(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    other = ec.generate_private_key(ec.SECP384R1())
    pem, kinds = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    file = tmp_path / "key"
    for content in (b"", b"no key", KEY.to_pem(), other.public_key().public_bytes(pem, kinds)):
        file.write_bytes(content)
        with pytest.raises(ParameterError, match="public key"):
            VerificationKey.read(file)
    file.write_bytes(KEY.public.to_pem())
    with pytest.raises(ParameterError, match="private key"):
        SigningKey.read(file)
    with pytest.raises(ParameterError, match="cannot read"):
        SigningKey.read(tmp_path / "none")


def test_what_is_no_key_is_not_quoted_to_the_server(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    with pytest.raises(ParameterError, match=r"must hold a public key in PEM, got 8 bytes of something else") as caught:
        VerificationKey.read(tmp_path / "password")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ParameterError, match="cannot read the key"):
        VerificationKey.read("no\0path")
