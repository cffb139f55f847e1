"""Where a network is trained, and what its random numbers come from."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

from synth.errors import JobError

Device = Literal["auto", "cpu", "cuda"]


def device_of(name: Device) -> torch.device:
    """The device of that name; "auto" is the GPU where there is one.

    Raises:
        JobError: there is no such device here.
    """
    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        raise JobError('device="cuda" needs a GPU that PyTorch can use, and there is none; use "cpu" or "auto"')
    return torch.device("cuda" if there and name != "cpu" else "cpu")


@contextmanager
def seeded(seed: int | None, device: torch.device) -> Iterator[None]:
    """Torch's own generators seeded within, and put back as they were after.

    Args:
        seed: none draws a fresh one.
        device: whose generator is in use beside the processor's.
    """
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        if seed is None:
            torch.seed()
        else:
            torch.manual_seed(seed)
        yield
