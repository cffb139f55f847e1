"""Sequential trees: every column from those before it, by gradient boosting and CART; the default without epsilon."""

from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray
from pydantic import Field

from synth.constraints import Formula
from synth.domain import Discretizer
from synth.generators.autoregressive_generator import LEAST_UNITS, AutoregressiveGenerator, LearnedRows
from synth.generators.models.fitted import AutoregressiveModel
from synth.progress import Progress
from synth.schema import Schema
from synth.schema.kinds.modeled import Modeled
from synth.trees import Growth, SequentialTrees, fit_sequence
from synth.trees.beside import SHARE


class TreesModel(AutoregressiveModel):
    """A model of `trees`."""

    @classmethod
    def restored(
        cls, content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], discretizer: Discretizer
    ) -> SequentialTrees:
        """The distribution that `SequentialTrees.to_arrays` took apart; errors as in the base."""
        return SequentialTrees.from_arrays(content, arrays, discretizer)


class Trees(AutoregressiveGenerator):
    """Every column learned from those before it, the target last: boosted chances of codes, and CART within them.

    Columns come in the order of the schema. It takes no epsilon; with one, `aim` or `latent_class` is to be chosen.
    """

    name: ClassVar[str] = "trees"
    least_of_class: ClassVar[float] = SHARE
    n_bins: int = Field(default=16, ge=2, le=1000, description="Codes of a number or time, about.")
    smallest_leaf: int = Field(
        default=LEAST_UNITS, ge=1, le=10_000, description="Units of a leaf; below 20, members are found."
    )
    caution: float = Field(default=3.0, ge=0, le=1000, description="Least gain of a split, in variances by chance.")
    rounds: int = Field(default=160, ge=1, le=10_000, description="Trees of a booster on 20,000 rows, at most.")
    n_threads: int = Field(default=1, ge=1, le=1024, description="Columns learned at a time.")

    @classmethod
    def model_class(cls) -> type[TreesModel]:
        return TreesModel

    def _held(self, schema: Schema) -> Schema:
        """The schema as of any generator, but for numbers that repeat another now and then: a mixture learns that."""
        whole = super()._held(schema)
        values = {
            name: c.model_copy(update={"modeled": None}) for name, c in whole.columns.items() if _repeats(name, whole)
        }
        return whole.model_copy(update={"columns": {**whole.columns, **values}}) if values else whole

    def _learn(self, learned: LearnedRows, seed: int, progress: Progress) -> SequentialTrees:
        growth = Growth(self.rounds, self.smallest_leaf, learned.rows_a_unit, self.caution)
        return fit_sequence(
            learned.rows, learned.discretizer, learned.weights, learned.order, growth, seed, n_threads=self.n_threads,
            focus=learned.target, n_given=len(learned.known), tell=lambda done: progress("learning columns", done),
        )  # fmt: skip


def _repeats(name: str, schema: Schema) -> bool:
    """True of a number that is the same as another one, whose own value is counted, or has a value of its own."""
    column: Any = schema.columns[name]
    modeled: Modeled | None = column.modeled
    if modeled is None or not modeled.alone or column.is_time or modeled.expression not in schema.columns:
        return False
    other, computed = (
        schema.columns[modeled.expression],
        {each.column for each in schema.constraints if isinstance(each, Formula)},
    )
    is_counted = other.modeled is None or _repeats(modeled.expression, schema)
    is_same = modeled.column is not None and modeled.column.bounds == (0, 0)
    return is_same and is_counted and other.is_line and not other.is_time and modeled.expression not in computed
