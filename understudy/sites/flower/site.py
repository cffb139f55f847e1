"""A site's end of a channel over Flower: a process that holds the table and answers what a SuperNode hands it."""

import json
from collections.abc import Callable
from pathlib import Path

from understudy.sites.channel import ChannelError, Respondent
from understudy.sites.flower import process
from understudy.sites.flower.credentials import SiteFiles

JOIN_S = 60.0
"""Seconds within which the server must be there, unless told."""


def serve_site(
    respondent: Respondent,
    files: SiteFiles,
    address: str,
    folder: Path,
    *,
    join_s: float = JOIN_S,
    on_joined: Callable[[], None] | None = None,
    on_failure: Callable[[Exception], None] | None = None,
) -> None:
    """Answer the requests of a server until it ends its run.

    The SuperNode is a child of this process and ends with it. An exception of the respondent reaches `on_failure`
    here and is no reply to the server, which learns nothing of its text.
    """
    child = process.start("understudy.sites.flower.supernode", folder, "supernode")
    try:
        config = {
            "address": address,
            "ca": str(files.ca.resolve()),
            "key": str(files.key.resolve()),
            "join_s": join_s,
        }
        child.pipe.send_bytes(json.dumps(config).encode())
        while True:
            received = child.pipe.recv_bytes()
            match received[:1]:
                case process.JOINED if on_joined is not None:
                    on_joined()
                case process.ASKED:
                    child.pipe.send_bytes(_answer(respondent, received[1:], on_failure))
                case process.ENDED:
                    return
                case process.LOST | process.REFUSED:
                    raise ChannelError(f"at address={address} {received[1:].decode()}")
    except ChannelError:
        raise
    except (EOFError, OSError) as error:
        raise ChannelError(f"the SuperNode ended unasked; log={child.log} says why") from error
    finally:
        child.close()


def _answer(respondent: Respondent, request: bytes, on_failure: Callable[[Exception], None] | None) -> bytes:
    try:
        return process.REPLY + respondent.answer(request)
    except Exception as error:  # noqa: BLE001 - any failure of a site is one thing to the server: no reply
        if on_failure is not None:
            on_failure(error)
        return process.FAILED
