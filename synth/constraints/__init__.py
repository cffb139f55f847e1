"""Constraints: public facts about rows as a whole, which every synthetic row keeps.

They are asserted, as bounds and categories are: no fit checks them against the table, and no row of it is refused or
left out for what it holds.
"""

from synth.constraints.kinds import (
    Constraint,
    Dependency,
    FixedCombinations,
    Formula,
    Inequality,
    Steps,
    Unique,
    check,
    combinations_of_held,
    dependencies,
    equivalents,
)  # fmt: skip

__all__ = [
    "Constraint", "Dependency", "FixedCombinations", "Formula", "Inequality", "Steps", "Unique", "check",
    "combinations_of_held", "dependencies", "equivalents",
]  # fmt: skip
