"""A site in a process of its own, which does as each request says. Run as: FOLDER NAME ADDRESS."""

import os
import signal
import sys
import time
from pathlib import Path

from understudy.sites.flower.credentials import SiteFiles
from understudy.sites.flower.site import serve_site


class Obedient:
    """Answers a request by its first word; anything else it turns round."""

    def __init__(self) -> None:
        self.n_requests = 0

    def answer(self, request: bytes) -> bytes:
        self.n_requests += 1
        match request.split(b":", 1):
            case [b"sleep", seconds]:
                time.sleep(float(seconds))
            case [b"hold", path]:
                Path(path.decode()).touch()
                while Path(path.decode()).exists():
                    time.sleep(0.01)
            case [b"fail", text]:
                raise RuntimeError(text.decode())
            case [b"count", _]:
                return b"%d" % self.n_requests
            case [b"pid", _]:
                return b"%d" % os.getpid()
        return request[::-1]


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background leaves it ignored
    folder, name = Path(sys.argv[1]), sys.argv[2]
    files = SiteFiles(folder / "ca.pem", folder / f"{name}.key", folder / f"{name}.pub")
    serve_site(Obedient(), files, sys.argv[3], folder / name, on_joined=(folder / f"{name}.joined").touch)
