"""The base of what `evaluation.json` holds: dataclasses whose fields are explained by the text below each."""

from typing import ClassVar

from synth.dp.statement import CLOSED


class Record:
    """Read back as it was written: every key, no other, and every value of its type."""

    __pydantic_config__: ClassVar = CLOSED
