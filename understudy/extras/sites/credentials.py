"""Certificates and keys of a channel, as files in PEM: the server's certificate, and a key for each site."""

import datetime
import ipaddress
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as pem
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID, CLOCK_SLACK = datetime.timedelta(days=365), datetime.timedelta(minutes=5)
"""For how long certificates are valid, and since when: a site's clock may be behind the server's."""
HERE = ("localhost", "127.0.0.1", "::1")
"""Names of the server on its own machine, which are in every certificate."""
SERVER_FILES = ("ca.pem", "server.pem", "server.key")


@dataclass(frozen=True)
class ServerFiles:
    ca: Path
    certificate: Path
    key: Path


@dataclass(frozen=True)
class SiteFiles:
    ca: Path
    key: Path
    public_key: Path


def make_server_files(folder: Path, hosts: Iterable[str] = ()) -> ServerFiles:
    """A certificate of the server, valid for a year, for these hosts and for this machine.

    It is its own authority and signs no other, so that sites which trust it trust this server alone.
    """
    key, files = ec.generate_private_key(ec.SECP256R1()), ServerFiles(*(folder / name for name in SERVER_FILES))
    now, name = datetime.datetime.now(datetime.UTC), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "understudy")])
    names = x509.SubjectAlternativeName([_host(host) for host in dict.fromkeys((*hosts, *HERE))])
    certificate = (
        x509.CertificateBuilder(
            name, name, key.public_key(), x509.random_serial_number(), now - CLOCK_SLACK, now + VALID
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(names, critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(pem.Encoding.PEM)
    )
    _write_key(files.key, key)
    files.ca.write_bytes(certificate)
    files.certificate.write_bytes(certificate)
    return files


def make_site_files(folder: Path, name: str, ca: Path) -> SiteFiles:
    """A new key pair for a site, on P-256: each call is signed, and P-384 costs a millisecond more."""
    key, files = ec.generate_private_key(ec.SECP256R1()), SiteFiles(ca, folder / f"{name}.key", folder / f"{name}.pub")
    _write_key(files.key, key)
    public = pem.PublicFormat.SubjectPublicKeyInfo
    files.public_key.write_bytes(key.public_key().public_bytes(pem.Encoding.PEM, public))
    return files


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """Write a private key that its owner alone may read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    content = key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption())
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
