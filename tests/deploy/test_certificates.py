"""Keys and certificates: what they say, who can read them, and that none is overwritten."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from steadfed._core.signatures import SigningKey, VerificationKey
from steadfed.deploy import make_certificates, make_node_key
from steadfed.deploy._certificates import make_signing_key
from steadfed.errors import ParameterError, RunError


def certificate(file: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(file.read_bytes())


def permissions(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_the_server_certificate_names_loopback_and_the_given_hosts(tmp_path: Path) -> None:
    files = make_certificates(tmp_path / "tls", ["fl.example.org", "192.0.2.7", "::1"])
    names = certificate(files.server).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "fl.example.org"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "192.0.2.7", "::1"]


def test_the_authority_signed_the_server_and_nothing_else_may_sign(tmp_path: Path) -> None:
    files = make_certificates(tmp_path / "tls")
    authority, server = certificate(files.authority), certificate(files.server)
    server.verify_directly_issued_by(authority)
    authority.verify_directly_issued_by(authority)
    allowed = [each.extensions.get_extension_for_class(x509.BasicConstraints).value.ca for each in (authority, server)]
    assert allowed == [True, False]


def test_certificates_are_valid_for_the_days_asked_for(tmp_path: Path) -> None:
    server = certificate(make_certificates(tmp_path / "tls", days=30).server)
    left = server.not_valid_after_utc - datetime.now(UTC)
    assert timedelta(days=29) < left <= timedelta(days=30)
    assert server.not_valid_before_utc < datetime.now(UTC)


def test_private_keys_are_their_owners_alone(tmp_path: Path) -> None:
    files = make_certificates(tmp_path / "tls")
    make_node_key(tmp_path / "keys" / "node-0")
    for file in (files.authority_key, files.server_key, tmp_path / "keys" / "node-0"):
        assert permissions(file) == 0o600
        assert permissions(file.parent) == 0o700


def test_a_node_key_is_in_the_format_flower_reads(tmp_path: Path) -> None:
    public = make_node_key(tmp_path / "node-0")
    assert (tmp_path / "node-0").read_bytes().startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----")
    private = serialization.load_ssh_private_key((tmp_path / "node-0").read_bytes(), None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert isinstance(private.curve, ec.SECP384R1)
    read = serialization.load_ssh_public_key(public.read_bytes())
    assert isinstance(read, ec.EllipticCurvePublicKey)
    assert read.public_numbers() == private.public_key().public_numbers()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    files = make_certificates(tmp_path / "tls")
    make_node_key(tmp_path / "node-0")
    before = (files.server_key.read_bytes(), (tmp_path / "node-0").read_bytes())
    with pytest.raises(RunError, match=r"ca\.key.*not overwritten"):
        make_certificates(tmp_path / "tls")
    with pytest.raises(RunError, match=r"node-0.*not overwritten"):
        make_node_key(tmp_path / "node-0")
    assert before == (files.server_key.read_bytes(), (tmp_path / "node-0").read_bytes())


def test_the_key_that_orders_are_signed_with_is_made_once_and_private(tmp_path: Path) -> None:
    private, public = tmp_path / "keys" / "server-signing.pem", tmp_path / "tls" / "server-signing.pub.pem"
    make_signing_key(private, public)
    before = private.read_bytes(), public.read_bytes()
    make_signing_key(private, public)
    assert before == (private.read_bytes(), public.read_bytes())
    assert (permissions(private), permissions(public), permissions(private.parent)) == (0o600, 0o644, 0o700)
    assert SigningKey.read(private).public.keyid == VerificationKey.read(public).keyid
    public.unlink()
    make_signing_key(private, public)
    assert public.read_bytes() == before[1]


def test_halves_of_a_signing_key_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    private, public = tmp_path / "server-signing.pem", tmp_path / "server-signing.pub.pem"
    make_signing_key(private, public)
    public.write_bytes(SigningKey.generate().public.to_pem())
    with pytest.raises(RunError, match=r"server-signing\.pub\.pem' is not the public half"):
        make_signing_key(private, public)
    private.unlink()
    with pytest.raises(RunError, match=r"server-signing\.pem' is gone, the private half of"):
        make_signing_key(private, public)


@pytest.mark.parametrize("host", ["", "a b", "-x.org", "http://fl.example.org", "x..org", "y" * 254])
def test_what_is_no_host_is_refused(tmp_path: Path, host: str) -> None:
    with pytest.raises(ParameterError, match="names hosts such as"):
        make_certificates(tmp_path / "tls", [host])
    assert not (tmp_path / "tls").exists()


@pytest.mark.parametrize("days", [0, -1, 3651])
def test_days_out_of_range_are_refused(tmp_path: Path, days: int) -> None:
    with pytest.raises(ParameterError, match=rf"1 to 3650 days, got {days}"):
        make_certificates(tmp_path / "tls", days=days)


def test_certificates_from_before_must_name_the_hosts_and_last(tmp_path: Path) -> None:
    files = make_certificates(tmp_path / "tls", ["fl.example.org"])
    files.check(["fl.example.org", "localhost"])
    with pytest.raises(RunError, match=r"does not name other\.example\.org"):
        files.check(["other.example.org"])
    with pytest.raises(RunError, match="ends on"):
        make_certificates(tmp_path / "short", days=1).check()
    files.server.write_text("no certificate", encoding="utf-8")
    with pytest.raises(RunError, match="cannot read the certificate"):
        files.check()
