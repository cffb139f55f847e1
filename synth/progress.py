"""Progress of work: a label and the share that is done."""

from collections.abc import Callable

Progress = Callable[[str, float | None], None]
"""Called with what is being done and the share done in [0, 1], or `None` where the share is unknown."""


def quiet(label: str, share: float | None) -> None:
    """A `Progress` that shows nothing."""
