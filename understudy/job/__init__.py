"""The job: its file as a specification, the sweep it asks for, its seeds, and its files once read."""

import hashlib

MAX_SEED = 2**32 - 1


def child_seed(seed: int, *path: str) -> int:
    """A seed for one purpose, so that adding a generator to a job changes nothing about the others.

    >>> child_seed(0, "fit", "mst") == child_seed(0, "fit", "mst") != child_seed(0, "sample", "mst")
    True
    """
    digest = hashlib.blake2b("\0".join((str(seed), *path)).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") >> 1
