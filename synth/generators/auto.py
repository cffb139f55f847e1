"""`auto`: the generator that public facts choose."""

from typing import Any, ClassVar

from synth import extras
from synth.dp.schedule import Schedule
from synth.generators.aim import Aim
from synth.generators.base import Generator, PrivateGenerator, fit_model
from synth.generators.latent_class import LatentClass
from synth.generators.marginal_generator import Independent
from synth.generators.models.model import Model
from synth.generators.trees import Trees
from synth.schema import Schema

FEW_COLUMNS = 6  # with fewer columns a junction tree holds what matters, and sharper than classes do
LEAST_SIGNAL = 5.0  # below it pairs are noise: columns on their own are nearer to the table, by pairs and triples, too


class Auto(PrivateGenerator):
    """Without epsilon `trees`; with it `latent_class`, `aim` or `independent`, as public facts have it.

    Facts are the columns, the units and epsilon. It reads no row, so that choosing costs nothing. The model is that of
    the chosen generator, and bears its name.
    """

    name: ClassVar[str] = "auto"

    def chosen(self, schema: Schema) -> Generator:
        return self._choose(schema)[0]

    def reason(self, schema: Schema) -> str:
        return self._choose(schema)[1]

    def _choose(self, schema: Schema) -> tuple[Generator, str]:
        """The generator for tables of a schema, and why: the first rule that holds."""
        if self.epsilon is None:
            why = "no epsilon is named, so that nothing is promised: its table may repeat what single rows say"
            return Trees(), why
        n_columns, signal = len(schema.modeled), self.signal(schema)
        alone, few, classes = (kind(epsilon=self.epsilon, delta=self.delta) for kind in (Independent, Aim, LatentClass))
        drawn_given = any(wrapper.wraps(few, schema) for wrapper in extras.load("wrapper").values())
        drowned = (
            f"pairs drown in noise: all units are {signal:.2g} standard deviations of the noise of a pair, and a model "
            f"of pairs takes {LEAST_SIGNAL:g}"
        )
        few_columns = f"of {n_columns} columns a junction tree holds what matters, and sharper than classes do"
        all_pairs = f"all {n_columns * (n_columns - 1) // 2} pairs are measured at once: none has to be left out"
        rules: tuple[tuple[bool, Generator, str], ...] = (
            (n_columns == 1, alone, "one column is to be learned, so that there are no pairs to measure"),
            (signal < LEAST_SIGNAL, alone, drowned),
            (n_columns < FEW_COLUMNS, few, few_columns),
            (drawn_given, few, "rows of an entity are drawn given the one before, which a junction tree does exactly"),
            (True, classes, all_pairs),
        )
        return next((chosen, why) for holds, chosen, why in rules if holds)

    def signal(self, schema: Schema) -> float:
        """Units in standard deviations of the noise of a pair, had all pairs the whole budget; public."""
        return LatentClass(epsilon=self.epsilon, delta=self.delta).signal(schema)

    def check(self, schema: Schema) -> None:
        super().check(schema)
        self.chosen(schema).check(schema)

    def cautions(self, schema: Schema) -> tuple[str, ...]:
        return self.chosen(schema).cautions(schema)

    def schedule(self, schema: Schema) -> Schedule | None:
        self.check(schema)
        chosen = self.chosen(schema)
        return chosen.schedule(schema) if isinstance(chosen, PrivateGenerator) else None

    def fit(self, train: Any, schema: Schema | None = None, **options: Any) -> Model:
        schema = self.schema_of_fit(schema)
        return fit_model(self.chosen(schema), train, schema, **options)
