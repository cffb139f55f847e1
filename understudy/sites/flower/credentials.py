"""Certificates and keys of a channel, as files: a CA, the server's certificate, and a key for each site."""

import datetime
import ipaddress
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = datetime.timedelta(days=365)
"""The time for which certificates are valid."""
CLOCK_SLACK = datetime.timedelta(minutes=5)
"""The time by which a site's clock may be behind the server's for a new certificate to be valid there."""


@dataclass(frozen=True)
class ServerFiles:
    """The server's files for TLS, in PEM."""

    ca: Path
    certificate: Path
    key: Path


@dataclass(frozen=True)
class SiteFiles:
    """A site's files, in PEM."""

    ca: Path
    key: Path
    public_key: Path


def make_server_files(folder: Path, hosts: Iterable[str] = ("127.0.0.1", "localhost")) -> ServerFiles:
    """A new authority and a server's certificate signed by it, valid for a year.

    The authority's private key is not written, so that nobody can sign another certificate with it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = _name("understudy sites CA")
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    ca = (
        _certificate(ca_name, ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    certificate = (
        _certificate(_name("understudy sites server"), ca_name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    files = ServerFiles(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    files.ca.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_key(files.key, key)
    return files


def make_site_files(folder: Path, name: str, ca: Path) -> SiteFiles:
    """A new key pair for a site, on P-256: each call is signed, and P-384 costs a millisecond more."""
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    files = SiteFiles(ca, folder / f"{name}.key", folder / f"{name}.pub")
    _write_key(files.key, key)
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    files.public_key.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, public))
    return files


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SLACK)
        .not_valid_after(now + VALID)
    )


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """Write a private key that its owner alone may read."""
    path.unlink(missing_ok=True)
    private = serialization.PrivateFormat.PKCS8
    pem = key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption())
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(pem)
