"""The generator that public facts choose: one answer for whoever does not want to compare."""

from typing import Any, ClassVar

from synth import extras
from synth.dp.schedule import Plan, Schedule
from synth.generators.aim import Aim
from synth.generators.base import Generator, PrivateGenerator
from synth.generators.latent_class import LatentClass
from synth.generators.marginal_generator import Independent
from synth.generators.models.model import Model
from synth.generators.trees import Trees
from synth.generators.wrapper import fit_model
from synth.schema import Schema

FEW_COLUMNS = 6
"""With fewer columns a junction tree holds what matters, and sharper than classes do."""
LEAST_SIGNAL = 5.0
"""Below it pairs are noise: columns on their own are nearer to the table, by pairs and triples, too."""
MANY_COLUMNS, CATEGORICAL_SHARE, MANY_LEVELS, TREE_SIGNAL = 20, 2 / 3, 100, (50.0, 400.0)
"""Columns, the share of them with categories, and the levels of one, above which few marginals say more at such a
signal than all pairs. With fewer columns or levels classes hold the pairs, however many columns are categories."""


class Auto(PrivateGenerator):
    """Without epsilon `trees`; with it `latent_class`, `aim` or `independent`, as public facts have it.

    Facts are kinds, levels and number of columns, units, and epsilon. The rule comes from fits of eleven tables and of
    parts of three at epsilon 1, and of six at other epsilons. It reads no row, so that choosing costs nothing. The
    model is that of the chosen generator, and bears its name.
    """

    name: ClassVar[str] = "auto"

    def chosen(self, schema: Schema) -> Generator:
        """The generator for tables of a schema, with this epsilon and delta."""
        return Trees() if self.epsilon is None else self._private(schema)[0]

    def reason(self, schema: Schema) -> str:
        """Why that generator, by public facts alone."""
        if self.epsilon is None:
            return "no epsilon is named, so that nothing is promised: its table may repeat what single rows say"
        return self._private(schema)[1]

    def _private(self, schema: Schema) -> tuple[Aim | Independent | LatentClass, str]:
        n_columns, signal = len(schema.modeled), self.signal(schema)
        alone = Independent(epsilon=self.epsilon, delta=self.delta)
        if n_columns == 1:
            return alone, "one column is to be learned, so that there are no pairs to measure"
        if signal < LEAST_SIGNAL:
            return alone, (
                f"pairs drown in noise: all units are {signal:.2g} standard deviations of the noise of a pair, and a "
                f"model of pairs takes {LEAST_SIGNAL:g}"
            )
        few = Aim(epsilon=self.epsilon, delta=self.delta)
        if n_columns < FEW_COLUMNS:
            return few, f"of {n_columns} columns a junction tree holds what matters, and sharper than classes do"
        if any(wrapper.wraps(few, schema) for wrapper in extras.load("wrapper").values()):
            return few, "rows are drawn given others, or beside texts, which a junction tree does exactly"
        if self._suits_few_marginals(schema):
            return few, "most columns are categories, and with so many levels few marginals say more than all pairs"
        classes = LatentClass(epsilon=self.epsilon, delta=self.delta)
        return classes, f"all {n_columns * (n_columns - 1) // 2} pairs are measured at once: none has to be left out"

    def _suits_few_marginals(self, schema: Schema) -> bool:
        columns = [schema.columns[name] for name in schema.modeled]
        n_categorical = sum(column.is_categorical for column in columns)
        levels = [len(column.levels) for column in columns]
        is_between = TREE_SIGNAL[0] <= self.signal(schema) < TREE_SIGNAL[1]
        is_categorical = n_categorical > CATEGORICAL_SHARE * len(columns) and max(levels, default=0) > MANY_LEVELS
        return is_between and is_categorical and len(columns) > MANY_COLUMNS

    def signal(self, schema: Schema) -> float:
        """Units in standard deviations of the noise of a pair, had all pairs the whole budget; public."""
        return LatentClass(epsilon=self.epsilon, delta=self.delta).signal(schema)

    def check(self, schema: Schema) -> None:
        super().check(schema)
        self.chosen(schema).check(schema)

    def cautions(self, schema: Schema) -> tuple[str, ...]:
        """Those of the generator that is chosen."""
        return self.chosen(schema).cautions(schema)

    def schedule(self, schema: Schema) -> Schedule | None:
        self.check(schema)
        chosen = self.chosen(schema)
        return chosen.schedule(schema) if isinstance(chosen, PrivateGenerator) else None

    def plan(self, schema: Schema) -> Plan:
        return self._private(schema)[0].plan(schema)

    def fit(self, train: Any, schema: Schema | None = None, **options: Any) -> Model:
        """A model of the table, fitted by the generator that is chosen."""
        schema = self.schema_of_fit(schema)
        return fit_model(self.chosen(schema), train, schema, **options)
