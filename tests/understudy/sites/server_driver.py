"""A server that waits for its sites and then for its end. Run as: FOLDER SITE ..."""

import signal
import sys
import time
from pathlib import Path

from understudy.sites.flower.credentials import ServerFiles
from understudy.sites.flower.server import FlowerChannel

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background leaves it ignored
    folder = Path(sys.argv[1])
    files = ServerFiles(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    keys = {name: folder / f"{name}.pub" for name in sys.argv[2:]}
    with FlowerChannel(files, keys, folder / "server") as channel:
        (folder / "address").write_text(channel.address)
        channel.wait_for_sites(60)
        (folder / "ready").touch()
        time.sleep(600)
