"""Sequential trees: every column from those before it, by gradient boosting and CART; the default without epsilon."""

import hashlib
import importlib.metadata
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from synth.constraints import Formula
from synth.distribution import VERSION
from synth.domain import Discretizer
from synth.errors import ModelError
from synth.generators.autoregressive_generator import LEAST_UNITS, AutoregressiveGenerator, LearnedRows
from synth.generators.models.autoregressive_model import AutoregressiveModel
from synth.output import whole_file
from synth.progress import Progress
from synth.schema import Schema
from synth.schema.kinds.modeled import Modeled
from synth.trees import Growth, SequentialTrees, fit_sequence
from synth.trees.conditional import Conditional, conditional_from_arrays, conditional_to_arrays
from synth.trees.forest import forests_from_arrays, forests_to_arrays
from synth.trees.rare_class import SHARE


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
        held = super()._held(schema)
        values = {
            name: c.model_copy(update={"modeled": None}) for name, c in held.columns.items() if _repeats(name, held)
        }
        return held.model_copy(update={"columns": {**held.columns, **values}}) if values else held

    def _learn(self, learned: LearnedRows, seed: int, progress: Progress, place: Path | None) -> SequentialTrees:
        growth = Growth(self.rounds, self.smallest_leaf, learned.rows_a_unit, self.caution)
        kept = None if place is None else KeptColumns(place, self._digest(learned, seed))
        return fit_sequence(
            learned.rows,
            learned.discretizer,
            learned.weights,
            learned.order,
            growth,
            seed,
            n_threads=self.n_threads,
            kept=kept,
            focus=learned.target,
            n_given=len(learned.known),
            tell=lambda done: progress("learning columns", done),
        )

    def _digest(self, learned: LearnedRows, seed: int) -> str:
        """The digest that unfinished work goes by, of everything that a fit depends on."""
        versions = {"understudy": VERSION, "scikit-learn": importlib.metadata.version("scikit-learn")}
        codes = learned.discretizer.to_plain()
        known = {**self.parameters(), **versions, "seed": seed, "order": learned.order, "codes": codes}
        known.pop("n_threads")
        digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode())
        for part in (
            learned.rows.codes,
            *learned.rows.ranks.values(),
            *learned.rows.positions.values(),
            learned.weights,
        ):
            digest.update(np.ascontiguousarray(part).data)
        return digest.hexdigest()


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


@dataclass(frozen=True)
class KeptColumns:
    """Columns that are learned, in a folder, for the same fit to go on from."""

    folder: Path
    fit: str

    def load(self, place: int, size: int, n_features: int) -> Conditional | None:
        """A column of so many codes that was learned before from so many others; `None`: there is none."""
        from safetensors import SafetensorError, safe_open

        path = self._path(place)
        if not path.exists():
            return None
        try:
            with safe_open(path, framework="numpy") as file:
                held = file.metadata() or {}
                arrays: Mapping[str, NDArray[Any]] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if held.get("fit") != self.fit:
                raise ModelError(
                    f"the folder {str(self.folder)!r} holds unfinished work of another fit; name another folder, or "
                    "remove it"
                )
            own = {name.removeprefix("own."): part for name, part in arrays.items() if name.startswith("own.")}
            return conditional_from_arrays(
                json.loads(held["content"]), own, forests_from_arrays(arrays), size, n_features
            )
        except (SafetensorError, ValueError, KeyError, TypeError, OSError) as error:
            if isinstance(error, ModelError):
                raise
            raise ModelError(
                f"the unfinished work in {str(path)!r} is damaged ({type(error).__name__}); remove it"
            ) from None

    def save(self, place: int, conditional: Conditional) -> None:
        """Keep a column, whole and durable."""
        from safetensors.numpy import save_file

        forests: list[Any] = []
        content, own = conditional_to_arrays(conditional, forests)
        arrays = {**forests_to_arrays(forests), **{f"own.{name}": np.ascontiguousarray(a) for name, a in own.items()}}
        held = {"fit": self.fit, "content": json.dumps(content)}
        with whole_file(self._path(place)) as beside:
            save_file(arrays, beside, metadata=held)

    def _path(self, place: int) -> Path:
        return self.folder / f"column-{place:05d}.safetensors"
