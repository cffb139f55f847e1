"""How many threads the numerical libraries of a process use where several processes share a machine."""

import os
from collections.abc import Mapping

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""What tells the numerical libraries, torch among them, how many threads to use."""


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def shared(n_processes: int, n_cores: int, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Environment variables that give each of several processes its share of the cores.

    Args:
        n_processes: at work at once, at least 1.
        n_cores: to share, at least 1.
        environment: may ask for fewer threads; what it asks for beyond the share is not granted.

    >>> shared(4, 8, {})["OMP_NUM_THREADS"], shared(4, 8, {"OMP_NUM_THREADS": "1"})["OMP_NUM_THREADS"]
    ('2', '1')
    """
    share = max(1, n_cores // n_processes)
    return {name: str(min(_asked(environment.get(name)) or share, share)) for name in THREADS}


def _asked(given: str | None) -> int | None:
    return int(given) if given and given.isdigit() and int(given) > 0 else None
