"""Certificates and keys of a channel, as files in PEM: the server's certificate, and a key for each site."""

import datetime
import ipaddress
import os
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as pem
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID, CLOCK_SLACK = datetime.timedelta(days=365), datetime.timedelta(minutes=5)
"""For how long certificates are valid, and since when: a site's clock may be behind the server's."""
HERE = ("localhost", "127.0.0.1", "::1")  # names of the server on its own machine, which are in every certificate


def make_server_files(folder: Path, hosts: Iterable[str] = ()) -> list[Path]:
    """A certificate of the server, valid for a year, for these hosts and for this machine; and its key.

    It is its own authority and signs no other, so that sites which trust it trust this server alone.
    """
    key = _write_key(folder / "server.key")
    now, name = datetime.datetime.now(datetime.UTC), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "understudy")])
    names = x509.SubjectAlternativeName([_host(host) for host in dict.fromkeys((*hosts, *HERE))])
    number, public = x509.random_serial_number(), key.public_key()
    certificate = (
        x509.CertificateBuilder(name, name, public, number, now - CLOCK_SLACK, now + VALID)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(names, critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(pem.Encoding.PEM)
    )
    certificates = [folder / "ca.pem", folder / "server.pem"]
    for path in certificates:
        path.write_bytes(certificate)
    return [*certificates, folder / "server.key"]


def make_site_files(folder: Path, name: str) -> list[Path]:
    key, paths = _write_key(folder / f"{name}.key"), [folder / f"{name}.key", folder / f"{name}.pub"]
    form = pem.PublicFormat.SubjectPublicKeyInfo
    paths[1].write_bytes(key.public_key().public_bytes(pem.Encoding.PEM, form))
    return paths


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """A new private key that its owner alone may read; on P-256, as each call is signed, and P-384 costs 1 ms more."""
    key = ec.generate_private_key(ec.SECP256R1())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    content = key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption())
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    return key
