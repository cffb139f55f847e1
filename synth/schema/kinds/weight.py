"""Survey weights."""

from typing import ClassVar, Literal

from synth.schema.kinds.real import FractionColumn


class WeightColumn(FractionColumn):
    """A survey weight: learned like a number, never used as a predictor; `decimals = 0` makes it whole."""

    is_weight: ClassVar[bool] = True
    _noun: ClassVar[str] = "a survey weight"
    kind: Literal["weight"] = "weight"
