"""What all columns have, and what those have whose domain need not be public."""

import math
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field, model_validator

from synth.validation import Frozen

INT64 = (-(2**63), 2**63 - 1)
_INTEGER_DTYPE = re.compile(r"(u?)int(8|16|32|64)(?:\[pyarrow\])?", re.IGNORECASE)
_FLOAT_DTYPE = re.compile(r"float(16|32|64)(?:\[pyarrow\])?", re.IGNORECASE)


class AnyColumn(Frozen):
    """What every column has."""

    missing: bool = Field(default=False, description="Whether a value may be missing.")
    drop: bool = Field(default=False, description="Leave the column out: it is neither learned nor written.")
    dtype: str | None = Field(default=None, description="pandas dtype of the column in a DataFrame or Parquet file.")

    @model_validator(mode="before")
    @classmethod
    def _frequent_values_of_numbers(cls, content: Any) -> Any:
        if isinstance(content, Mapping) and "measure_spikes" in content and "measure_spikes" not in cls.model_fields:
            raise ValueError(
                "frequent values are measured of integer, real and weight columns; leave out measure_spikes"
            )
        return content


class MeasurableColumn(AnyColumn):
    """A column whose domain need not be public: where it is not, a private fit measures it and pays for it."""

    domain: ClassVar[str] = "bounds"
    measure: bool = Field(
        default=False, description="The domain is not public: a private fit measures it under its budget."
    )

    @model_validator(mode="before")
    @classmethod
    def _domain(cls, content: Any) -> Any:
        if not isinstance(content, Mapping):
            return content
        if content.get("measure") is not True:
            return content
        for key in ("bins", "spikes"):
            if content.get(key):
                raise ValueError(f"a column to measure has no {key}, which would be public; leave out one of the two")
        return {cls.domain: cls.widest(content), **content}

    @classmethod
    def widest(cls, content: Mapping[str, Any]) -> tuple[Any, ...]:
        """The domain of a column of which only its other keys are public: a dtype, a precision, a time zone."""
        raise NotImplementedError


def whole_numbers_of(dtype: object) -> tuple[int, int] | None:
    """The least and the greatest whole number of an integer dtype, within 64 bits; none for any other dtype."""
    known = _INTEGER_DTYPE.fullmatch(str(dtype))
    if known is None:
        return None
    bits = int(known[2])
    return (0, min(2**bits - 1, INT64[1])) if known[1] else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def exactly_up_to(dtype: str) -> float:
    """The greatest whole number up to which a dtype holds them all; no limit for what is no number.

    >>> exactly_up_to("int8"), exactly_up_to("float64") == 2**53
    (127, True)
    """
    known = _FLOAT_DTYPE.fullmatch(dtype)
    if known is not None:
        return float(2 ** {"16": 11, "32": 24}.get(known[1], 53))
    whole = whole_numbers_of(dtype)
    return math.inf if whole is None else whole[1]


def ordered(bounds: tuple[Any, Any]) -> tuple[Any, Any]:
    """The bounds, refused where they are reversed."""
    if bounds[0] > bounds[1]:
        raise ValueError(f"bounds={list(bounds)} are reversed; write the lower one first")
    return bounds
