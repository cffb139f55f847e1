"""Payloads as Flower's messages, and the clients that carry them: what both ends share.

A payload goes inside its message, so that a site needs two calls for a request and its reply. Flower's own apps push
and pull the parts of a message one by one, by their hashes: seven calls more, which cost more than all the rest.
"""

import secrets
import ssl
from pathlib import Path
from typing import Any, TypeVar

import httpx
from flwr.app import ConfigRecord, RecordDict
from flwr.app.error import Error
from flwr.app.message import make_message
from flwr.app.metadata import Metadata
from flwr.common.constant import ErrorCode
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message, ObjectTree
from flwr.supercore.protobuf.client import ProtobufClient, ProtobufClientInterceptor

REQUEST = "query.request"
"""A request, which the site answers."""
END = "query.end"
"""The end of the run, at which the site leaves."""
CALL_TIMEOUT_S = 30.0
"""Seconds after which a call to the SuperLink has failed; well above those that it holds a pull."""
LOOPBACK = ("127.", "localhost:", "[::1]")
"""Starts of addresses on this machine."""

C = TypeVar("C", bound=ProtobufClient)


def new_name() -> str:
    """A new message's name, of the form that Flower asks for."""
    return secrets.token_hex(32)


def message(metadata: Metadata, payload: bytes | None) -> Message:
    """A message for the wire."""
    if payload is None:
        made = make_message(metadata, error=Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION))
    else:
        made = make_message(metadata, RecordDict({"payload": ConfigRecord({"bytes": payload})}))
    wire: Message = message_to_proto(made)
    return wire


def tree(sent: Message) -> ObjectTree:
    """The registration of a message at the SuperLink, which forgets those that it does not know by their tree."""
    return ObjectTree(object_id=sent.metadata.message_id)


def payload_of(received: Message) -> bytes | None:
    """The payload of a message; `None` where its sender failed, or it is none of ours."""
    if received.HasField("error") or not received.HasField("content"):
        return None
    record = message_from_proto(received).content.config_records.get("payload", {})
    payload = record.get("bytes")
    return payload if isinstance(payload, bytes) else None


def connected(client: type[C], address: str, ca: Path, interceptors: list[ProtobufClientInterceptor]) -> C:
    """A client over TLS that trusts one authority alone.

    A proxy that the environment names is not used for an address on this machine.
    """
    made: C = client.from_server_address(address, False, ca.read_bytes(), interceptors)
    if address.startswith(LOOPBACK):
        # The field is private to Flower, whose client takes neither an HTTP client nor a setting for proxies.
        made._client.close()
        made._client = direct(ca)
    return made


def direct(ca: Path) -> Any:
    """An HTTP client that trusts one authority alone and uses no proxy."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cafile=ca)
    return httpx.Client(verify=context, timeout=CALL_TIMEOUT_S, trust_env=False)
