"""The command, loaded once: each call is a fork of this process, on the streams of whoever calls, and in their folder.

`CLIENT` is what a reader's shell calls: loading the libraries takes longer than most commands.
"""

import json
import os
import signal
import socket
import sys
from contextlib import suppress

CLIENT = """#!{python} -SE
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({path!r})
    asked = dict(arguments=sys.argv[1:], folder=os.getcwd(), environment=dict(os.environ))
    socket.send_fds(server, [json.dumps(asked).encode()], [0, 1, 2])
    sys.exit(int(server.recv(8) or b"4"))
"""


def carry_out(caller: socket.socket) -> None:
    message, streams, _, _ = socket.recv_fds(caller, 1 << 20, 3)
    asked = json.loads(message)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = ["understudy", *asked["arguments"]]
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    code = 0
    try:
        main()
    except SystemExit as end:
        code = int(end.code or 0)
    with suppress(OSError):
        caller.sendall(str(code).encode())


if __name__ == "__main__":
    import evaluate  # noqa: F401  - loaded before the forks
    import reports  # noqa: F401
    import understudy.run.run
    import understudy.vendors.comparison  # noqa: F401
    from understudy.cli import main

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(sys.argv[1])
        listener.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            caller, _ = listener.accept()
            if os.fork() == 0:
                try:
                    carry_out(caller)
                finally:
                    os._exit(0)
            caller.close()
