"""Payloads as Flower's messages: what both ends share of its protocol."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.app.error import Error
from flwr.app.message import make_message, remove_content_from_message
from flwr.app.metadata import Metadata
from flwr.common.constant import ErrorCode
from flwr.common.serde import message_to_proto
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.protobuf.client import ProtobufClient, ProtobufClientInterceptor

REQUEST = "query.request"
"""A request, which the site answers."""
END = "query.end"
"""The end of the run, at which the site leaves."""
CALL_TIMEOUT_S = 30.0
LOOK_AGAIN_S = 0.02
"""Seconds between looks for a part of a message that its sender has announced and not yet delivered."""

C = TypeVar("C", bound=ProtobufClient)


class Outgoing:
    """A message in the three forms that its delivery needs.

    Attributes:
        announcement: the message without its content.
        tree: names (hashes) of its parts.
        parts: contents of its parts by name, each of them before those that refer to it.
    """

    def __init__(self, metadata: Metadata, payload: bytes | None) -> None:
        content = None if payload is None else RecordDict({"payload": ConfigRecord({"bytes": payload})})
        error = Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION) if payload is None else None  # without a reason
        message = make_message(metadata, content, error)
        metadata.__dict__["_message_id"] = message.object_id
        with no_object_id_recompute():
            self.announcement = message_to_proto(remove_content_from_message(message))
            self.tree = get_object_tree(message)
            self.parts = {name: part.deflate() for name, part in get_all_nested_objects(message).items()}

    @property
    def message_id(self) -> str:
        """The message's name: the hash of all of it."""
        return str(self.tree.object_id)


def part_names(tree: ObjectTree) -> list[str]:
    """Names of all parts of a message, each once."""
    return list(dict.fromkeys(node.object_id for node in iterate_object_tree(tree)))


def payload_of(name: str, parts: dict[str, bytes]) -> bytes | None:
    """The payload of a message that has arrived; `None` where it says that its sender failed."""
    message = inflate_object_from_contents(name, parts)
    if not isinstance(message, Message) or message.has_error():
        return None
    payload = message.content.config_records["payload"]["bytes"]
    return payload if isinstance(payload, bytes) else None


def pulled(pull: Callable[[str], Any], name: str, until: float) -> bytes:
    """One part of a message, as soon as its sender has delivered it.

    Args:
        pull: asks for the part of a name.
        name: of the part.
        until: the moment (`time.monotonic`) to give up.

    Raises:
        LookupError: the part is gone, or did not come in time.
    """
    while True:
        response = pull(name)
        if response.object_available:
            return bytes(response.object_content)
        if not response.object_found or time.monotonic() >= until:
            raise LookupError(name)
        time.sleep(LOOK_AGAIN_S)


def connected(client: type[C], address: str, ca: Path, interceptors: list[ProtobufClientInterceptor]) -> C:
    """A client over TLS that trusts one authority alone.

    A proxy that the environment names is not used for an address on this machine.
    """
    made = client.from_server_address(address, False, ca.read_bytes(), interceptors)
    if address.startswith(("127.", "localhost:", "[::1]")):
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cafile=ca)
        made.close()
        made._client = httpx.Client(verify=context, timeout=CALL_TIMEOUT_S, trust_env=False)
    return made
