"""The base of what `evaluation.json` holds: dataclasses whose fields are explained by the text below each."""

from typing import Annotated, ClassVar

from pydantic import Field

from synth.dp.statement import CLOSED

Number = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


class Record:
    """Read back as it was written: every key, no other, and every value of its type."""

    __pydantic_config__: ClassVar = CLOSED
