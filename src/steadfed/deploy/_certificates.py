"""Keys and certificates of a federation: an authority of its own, a server certificate, a key for every node.

All keys lie on the curve P-384, but for the one that orders are signed with, which is of Ed25519. Private keys are
readable by their owner alone from their first byte on, and nothing that exists is ever overwritten.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from steadfed._core.signatures import SigningKey, VerificationKey
from steadfed.errors import ParameterError, RunError

LOOPBACK = ("localhost", "127.0.0.1")
"""What every server certificate is good for."""
LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
HOST_NAME = re.compile(rf"(?=.{{1,253}}$){LABEL}(\.{LABEL})*", re.IGNORECASE)
CLOCK_SKEW = timedelta(minutes=5)
"""Certificates are valid from so long ago, for machines whose clocks are behind."""
LONGEST = 3650
"""The most days a certificate is made for."""


@final
class Certificates:
    """The files of an authority and of the server certificate that it signed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = folder / "ca.crt"
        """The certificate of the authority: what every node and every user of the federation must have."""
        self.authority_key = folder / "ca.key"
        """The private key of the authority; whoever has it can pretend to be the server."""
        self.server = folder / "server.pem"
        """The certificate that the SuperLink shows."""
        self.server_key = folder / "server.key"
        """The private key of the SuperLink."""

    @property
    def exist(self) -> bool:
        """Whether all four files are there."""
        return all(file.is_file() for file in (self.authority, self.authority_key, self.server, self.server_key))

    def check(self, hosts: Sequence[str] = ()) -> None:
        """Refuse certificates that end within a day or do not name all of these hosts.

        Raises:
            RunError: they cannot be used; the message says what to do.
        """
        remedy = f"delete {str(self.folder)!r} and start again, or choose another folder"
        for file in (self.authority, self.server):
            try:
                ends, named = _end_and_names(file)
            except Exception as error:  # noqa: BLE001  cryptography raises what its parsers raise, when a field is asked for
                raise RunError(f"cannot read the certificate {str(file)!r}: {str(error)[:200]}; {remedy}") from None
            if ends < datetime.now(UTC) + timedelta(days=1):
                raise RunError(f"the certificate {str(file)!r} ends on {ends:%Y-%m-%d}; {remedy}")
        unnamed = [host for host in hosts if _name(host) not in named]
        if unnamed:
            raise RunError(f"the certificate {str(self.server)!r} does not name {', '.join(unnamed)}; {remedy}")


def _end_and_names(file: Path) -> tuple[datetime, list[x509.GeneralName]]:
    """Return until when a certificate is valid, and for whom."""
    certificate = x509.load_pem_x509_certificate(file.read_bytes())
    of_names = [each.value for each in certificate.extensions if isinstance(each.value, x509.SubjectAlternativeName)]
    return certificate.not_valid_after_utc, [name for names in of_names for name in names]


def make_certificates(folder: Path, hosts: Sequence[str] = (), days: int = 365) -> Certificates:
    """Make an authority and a server certificate for loopback and the given hosts, in a folder for its owner alone.

    Args:
        folder: where the files go; made if need be.
        hosts: names and addresses under which nodes reach the SuperLink.
        days: how long the certificates are valid, from 1 to 3,650.

    Raises:
        ParameterError: a host is neither a name nor an address, the days are out of range.
        RunError: one of the files exists.
    """
    if not 1 <= days <= LONGEST:
        raise ParameterError(f"days: a certificate is valid for 1 to {LONGEST} days, got {days}")
    names = [_name(host) for host in dict.fromkeys((*LOOPBACK, *hosts))]
    files = Certificates(folder)
    private_folder(folder)
    authority_key, server_key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    authority_name = _subject("steadfed federation")
    authority = _sign(_authority(authority_key), authority_name, authority_name, authority_key, days)
    served = _server(server_key, authority_key, names)
    server = _sign(served, _subject("SuperLink"), authority_name, authority_key, days)
    write_new(files.authority_key, _pkcs8(authority_key))
    write_new(files.server_key, _pkcs8(server_key))
    write_new(files.authority, authority.public_bytes(serialization.Encoding.PEM), mode=0o644)
    write_new(files.server, server.public_bytes(serialization.Encoding.PEM), mode=0o644)
    return files


def make_node_key(private: Path) -> Path:
    """Make the key pair of a node in the formats that Flower reads, and return the file of the public key.

    The private key is in OpenSSH's format, without a pass phrase; the public key is a line beside it, NAME.pub. The
    folder of both is closed to everybody but its owner.

    Raises:
        RunError: one of the files exists.
    """
    private_folder(private.parent)
    key = ec.generate_private_key(ec.SECP384R1())
    public = private.with_name(f"{private.name}.pub")
    write_new(
        private,
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        ),
    )
    line = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    write_new(public, line + b"\n", mode=0o644)
    return public


def make_signing_key(private: Path, public: Path) -> None:
    """Make the key pair that the server signs its orders with; one that is there already is kept.

    Raises:
        RunError: the public key is there without the private one, or is not its half.
        ParameterError: one of them cannot be read.
    """
    for file in (private, public):
        private_folder(file.parent)
    if not private.exists() and not public.exists():
        write_new(private, SigningKey.generate().to_pem())
    if not private.exists():
        raise RunError(
            f"{str(private)!r} is gone, the private half of {str(public)!r}; put it back, or delete the public one "
            f"and give every node the new one"
        )
    key = SigningKey.read(private)
    if not public.exists():
        write_new(public, key.public.to_pem(), mode=0o644)
    elif VerificationKey.read(public).keyid != key.public.keyid:
        raise RunError(f"{str(public)!r} is not the public half of {str(private)!r}; delete it, and start again")


def private_folder(folder: Path) -> None:
    """Make a folder that its owner alone may enter; one that exists is made so.

    Raises:
        RunError: it cannot be made.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise RunError(
            f"cannot make the folder {str(folder)!r}: {error.strerror}; choose a place that can be written"
        ) from None


def write_new(file: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Write a file that does not exist yet, with its permissions from the beginning.

    Raises:
        RunError: it exists or cannot be written.
    """
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise RunError(f"{str(file)!r} exists and is not overwritten; move it away, or choose another folder") from None
    except OSError as error:
        raise RunError(f"cannot write {str(file)!r}: {error.strerror}") from None
    with os.fdopen(descriptor, "wb") as target:
        target.write(content)


def _name(host: str) -> x509.GeneralName:
    """Return an address as an address and a name as a name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if HOST_NAME.fullmatch(host) is None:
            raise ParameterError(
                f"a certificate names hosts such as 'fl.example.org' or addresses such as '192.0.2.7', got {host!r}"
            ) from None
        return x509.DNSName(host)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    """Return what the certificate of an authority says besides names and dates: it may sign, and nothing else."""
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        x509.CertificateBuilder()
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _server(
    key: ec.EllipticCurvePrivateKey, authority_key: ec.EllipticCurvePrivateKey, names: Sequence[x509.GeneralName]
) -> x509.CertificateBuilder:
    """Return what the certificate of a server says besides names and dates: it serves under these names."""
    return (
        x509.CertificateBuilder()
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
    )


def _sign(
    builder: x509.CertificateBuilder, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.Certificate:
    now = datetime.now(UTC)
    return (
        builder.subject_name(subject)
        .issuer_name(issuer)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
        .sign(key, hashes.SHA384())
    )


def _pkcs8(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
