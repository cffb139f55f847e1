"""The server's child process: Flower's SuperLink, with TLS, behind the admission of known sites."""

import json
import os
import socket
import sys
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

import uvicorn
from flwr.superlink.auth_plugin import NoOpControlAuthnPlugin
from flwr.superlink.cli.flower_superlink import SuperLinkLifespan
from flwr.superlink.config_loader import SuperLinkLifespanConfig
from flwr.superlink.main import create_app
from flwr.superlink.routers.control.middlewares import (
    ControlEventLogMiddleware,
    ControlLicenseMiddleware,
    ControlSensitiveResponseMiddleware,
)
from flwr.superlink.routers.fleet.middlewares import FleetEventLogMiddleware

from understudy.sites.flower.admission import Admission
from understudy.sites.flower.process import parent_connection

END_WITHIN_S = 2.0
"""Seconds that the server has to end by itself before its process does."""
IDLE = {
    ControlEventLogMiddleware,
    ControlLicenseMiddleware,
    ControlSensitiveResponseMiddleware,
    FleetEventLogMiddleware,
}
"""Parts of Flower's application that only its extensions make use of. Each costs half a millisecond a request."""


def main() -> None:
    """Serve until the parent's end of the pipe is gone."""
    pipe = parent_connection(sys.argv[1])
    config = json.loads(pipe.recv_bytes())
    family = socket.AF_INET6 if ":" in config["host"] else socket.AF_INET
    listener = socket.create_server((config["host"], config["port"]), family=family, backlog=128)
    port = listener.getsockname()[1]
    app = create_app(_config(config["host"], port), SuperLinkLifespan)
    app.user_middleware = [part for part in app.user_middleware if part.cls not in IDLE]
    keys = [key.encode() for key in config["keys"]]
    server = uvicorn.Server(
        uvicorn.Config(
            Admission(app, config["token"], keys),
            ssl_certfile=config["certificate"],
            ssl_keyfile=config["key"],
            access_log=False,
            log_level="warning",
            timeout_keep_alive=60,
            timeout_graceful_shutdown=1,
        )
    )
    threading.Thread(target=_report, args=(server, pipe, port), daemon=True).start()
    server.run(sockets=[listener])


def _config(host: str, port: int) -> SuperLinkLifespanConfig:
    """A SuperLink that keeps its state in memory, admits registered sites alone and starts no process."""
    nothing: dict[str, Any] = dict.fromkeys(
        [
            "health_server_address", "certificates", "superexec_auth_secret", "event_log_plugin",
            "fleet_event_log_plugin", "artifact_provider", "fleet_api_address",
            "ssl_ca_certfile", "ssl_certfile", "ssl_keyfile",
        ]
    )  # fmt: skip
    return SuperLinkLifespanConfig(
        control_address="",
        host=host,
        port=port,
        insecure=False,
        authn_plugin=NoOpControlAuthnPlugin(),
        enable_event_log=False,
        enable_supernode_auth=True,
        fleet_api_type="grpc-rere",
        simulation=False,
        database=":flwr-in-memory:",
        isolation="process",
        runtime_dependency_install=False,
        **nothing,
    )


def _report(server: uvicorn.Server, pipe: Connection, port: int) -> None:
    """Tell the parent the port once it is served, and end with the parent."""
    try:
        while not server.started:
            time.sleep(0.01)
        pipe.send_bytes(str(port).encode())
        pipe.recv_bytes()
    except (EOFError, OSError):
        server.should_exit = True
        time.sleep(END_WITHIN_S)
        os._exit(0)


if __name__ == "__main__":
    main()
