"""How long work tells what it is doing."""

from collections.abc import Callable

Progress = Callable[[str, float | None], None]
"""Called with what is being done and the share done in [0, 1], or none where the share is unknown."""


def quiet(label: str, share: float | None) -> None:
    """A `Progress` that shows nothing."""
