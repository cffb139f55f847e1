"""One point of the growth benchmark, in a process of its own: one table, one fit, one sample, one line of JSON.

``python -m benchmarks.growth_point POINT``, where POINT is a JSON object of `Point`'s fields.
"""

import json
import resource
import sys
import time
from dataclasses import dataclass
from typing import Any

import synth
from benchmarks.growth_table import FIRST_CATEGORIES, make_table
from synth.generators import registry
from synth.generators.models.fitted import MarginalModel
from synth.marginals import LatentClasses

EPSILON = 1.0


@dataclass(frozen=True)
class Point:
    """What is fitted to what.

    Attributes:
        generator: its name.
        rows: of the table.
        columns: of the table.
        categories: of its first column.
        model_mb: largest size of the model, for generators that have such a limit.
    """

    generator: str
    rows: int = 50_000
    columns: int = 15
    categories: int = FIRST_CATEGORIES
    model_mb: float = 4.0

    @property
    def limited(self) -> bool:
        """Whether the generator has a limit on its model."""
        return "max_model_mb" in registry.generator_class(self.generator).model_fields

    @property
    def name(self) -> str:
        """The same for points that are the same fit."""
        limit = f", {self.model_mb:g} MB" if self.limited else ""
        return f"{self.generator}: {self.rows} rows, {self.columns} columns, {self.categories} categories{limit}"


def measure(point: Point) -> dict[str, Any]:
    """Seconds and megabytes of one fit and sample, imports and the making of the table not counted."""
    table, schema = make_table(point.rows, point.columns, point.categories)
    parameters: dict[str, Any] = {"max_model_mb": point.model_mb} if point.limited else {}
    if registry.generator_class(point.generator).private:
        parameters["epsilon"] = EPSILON
    synth.fit(table.head(500), schema, "independent", epsilon=EPSILON).sample(10, seed=0)  # late imports
    before_mb = _peak_mb()
    started, used = time.perf_counter(), time.process_time()
    model: Any = synth.fit(table, schema, point.generator, **parameters)
    fitted, fitted_cpu = time.perf_counter(), time.process_time()
    model.sample(len(table), seed=0)
    sampled, sampled_cpu = time.perf_counter(), time.process_time()
    scores = {
        "sample_cpu_s": sampled_cpu - fitted_cpu,
        "peak_mb": _peak_mb(),
        "before_mb": before_mb,
    }
    if isinstance(model, MarginalModel):
        scores["most_codes"] = float(max(model.distribution.domain.values()))
    if isinstance(model, MarginalModel) and not isinstance(model.distribution, LatentClasses):
        cliques = model.distribution.potentials
        scores["n_marginals"] = float(sum(len(factor.attributes) > 1 for factor in cliques))
        scores["model_mb"] = 8e-6 * model.distribution.tree.n_cells
    times = {"fit_s": fitted - started, "fit_cpu_s": fitted_cpu - used, "sample_s": sampled - fitted}
    return {**times, "scores": scores}


def _peak_mb() -> float:
    """Most memory that the process has held so far; Linux counts it in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


if __name__ == "__main__":
    print(json.dumps(measure(Point(**json.loads(sys.argv[1])))))
