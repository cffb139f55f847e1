"""The channel from the server to its sites: requests out, replies back; the keys and certificates that it needs.

A message is a line of JSON, then bytes.
"""

import datetime
import ipaddress
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as pem
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from synth.errors import BadInput

Recorder = Callable[[str, str, bytes], None]
"""A reader of every payload: the site's name, "request" or "reply", and the payload."""
VALID, CLOCK_SLACK = datetime.timedelta(days=365), datetime.timedelta(minutes=5)
"""For how long certificates are valid, and since when: a site's clock may be behind the server's."""
HERE = ("localhost", "127.0.0.1", "::1")  # names of the server on its own machine, which are in every certificate


class ChannelError(BadInput, ConnectionError):
    """A channel that gave out or never came up; asking again needs a new one."""


class SitesError(BadInput):
    """A request, a reply or a run of several sites is refused; no noise was drawn for it, and no sum was shown."""


def pack(content: Mapping[str, Any], body: bytes = b"") -> bytes:
    """A message: its content as one line of JSON, then its body.

    >>> unpack(pack({"task": "share"}, b"keys"))
    ({'task': 'share'}, b'keys')
    """
    return json.dumps(dict(content), separators=(",", ":")).encode() + b"\n" + body


def unpack(message: bytes) -> tuple[dict[str, Any], bytes]:
    line, _, body = message.partition(b"\n")
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise SitesError("a message of several sites begins with a line of JSON, and this one does not; send it again")
    return content, body


class Respondent(Protocol):
    def answer(self, request: bytes) -> bytes: ...


class Channel:
    def __init__(self, sites: Iterable[str], recorder: Recorder | None = None) -> None:
        self.sites = tuple(sorted(sites))
        self.record: Recorder = recorder or (lambda *_: None)

    @property
    def present(self) -> tuple[str, ...]:
        return self.sites

    def ask(self, requests: Mapping[str, bytes], timeout_s: float) -> dict[str, bytes]:
        """Replies by site; a site that failed, is late or is gone has none."""
        raise NotImplementedError

    def wait(self, n_sites: int, timeout_s: float) -> bool:
        until = time.monotonic() + timeout_s
        while len(self.present) < n_sites and time.monotonic() < until:
            time.sleep(0.1)
        return len(self.present) >= n_sites


class LocalChannel(Channel):
    def __init__(self, respondents: Mapping[str, Respondent], recorder: Recorder | None = None) -> None:
        super().__init__(respondents, recorder)
        self._respondents = respondents

    def ask(self, requests: Mapping[str, bytes], timeout_s: float) -> dict[str, bytes]:
        replies = {}
        for site in sorted(requests):
            self.record(site, "request", requests[site])
            began = time.monotonic()
            try:
                reply = self._respondents[site].answer(requests[site])
            except Exception:  # noqa: BLE001, S112 - any failure of a site is one thing to the server: no reply
                continue
            if time.monotonic() - began <= timeout_s:
                self.record(site, "reply", reply)
                replies[site] = reply
        return replies


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
    """A key pair of a site: the private one, and the public one for the server."""
    paths = [folder / f"{name}.key", folder / f"{name}.pub"]
    public = _write_key(paths[0]).public_key()
    paths[1].write_bytes(public.public_bytes(pem.Encoding.PEM, pem.PublicFormat.SubjectPublicKeyInfo))
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
