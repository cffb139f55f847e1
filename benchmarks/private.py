"""Private tables: what is left between them and real ones, by experiment, and the regret of `auto`.

``python -m benchmarks.shelf FOLDER --fits aim:1 latent_class:1 "latent_class:1@noise off" --out private.json`` fits and
scores; ``python -m benchmarks.private private.json`` draws C2ST, TSTR, triples, the worst column over noise, and how
much worse the choice of `auto` is than the better of its two. A fit with one of these after its epsilon has something
true in place of something released, and no privacy:

- ``@true values``: each value is that of a real row with the same code;
- ``@true codes``: the codes are those of real rows, values as the decoder draws them;
- ``@noise off``: the same schedule, and no noise is drawn.
"""

import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import synth
from synth.dp.budget import Budget
from synth.dp.mechanisms import NoNoise
from synth.generators.fitting.training_data import counted_source
from synth.generators.models.fitted import MarginalModel
from synth.schema import Schema

VALUES, CODES, NO_NOISE = "true values", "true codes", "noise off"
FIGURES = {"c2st": "C2ST", "tstr": "TSTR", "tv3": "triples", "column": "worst column over noise"}
ITS_TWO = ("aim", "latent_class")  # of `auto`, on tables of more than a few columns


def limited(fit: str, train: pd.DataFrame, schema: Schema, seed: int, privacy: Mapping[str, float]) -> pd.DataFrame:
    """A table of a fit such as ``latent_class:1@noise off``."""
    name, _, limit = fit.partition("@")
    generator: Any = synth.generator(name.partition(":")[0], **privacy).chosen(schema)
    budget = {"budget": Budget(generator.schedule(schema), NoNoise())} if limit == NO_NOISE else {}
    model = generator.fit(train, schema, seed=seed, **budget)
    if limit != NO_NOISE:
        kept = {each.name: getattr(model, each.name) for each in fields(MarginalModel)}
        rows = counted_source(train, schema, promises=True, mapped=False).frame()
        model = _Truthful(**kept, rows=rows, limit=limit)
    return model.sample(len(train), seed=seed)


@dataclass(frozen=True, repr=False)
class _Truthful(MarginalModel):
    """A model that draws something of real rows."""

    rows: pd.DataFrame | None = None
    limit: str = VALUES

    def _decoded(self, codes: np.ndarray, rng: np.random.Generator, known: pd.DataFrame | None = None) -> pd.DataFrame:
        assert self.rows is not None
        real = self.discretizer.encode(self.rows)
        if self.limit == CODES:
            return super()._decoded(
                real[rng.permutation(len(real)).take(np.arange(len(codes)), mode="wrap")], rng, known
            )
        drawn = super()._decoded(codes, rng, known)
        for at, attribute in enumerate(self.discretizer.attributes):
            order, wanted = np.argsort(real[:, at], kind="stable"), attribute.possible(codes[:, at], rng)
            starts, ends = (np.searchsorted(real[order, at], wanted, side=side) for side in ("left", "right"))
            rows = order[np.minimum(starts + (rng.random(len(wanted)) * (ends - starts)).astype(int), len(order) - 1)]
            values = self.rows[attribute.name].take(rows).reset_index(drop=True)
            drawn[attribute.name] = values.where(ends > starts, drawn[attribute.name])
        return drawn


def main(arguments: Sequence[str]) -> None:
    print("\n".join(_drawn(json.loads(Path(arguments[0]).read_text(encoding="utf-8"))["tables"])))


def _drawn(tables: Mapping[str, Any]) -> Iterator[str]:
    fits = list(dict.fromkeys(fit for results in tables.values() for fit in results if ":" in fit))
    for key, words in FIGURES.items():
        yield f"\n| {words} | {' | '.join(tables)} |"
        yield f"| --- |{' ---: |' * len(tables)}"
        for fit in fits:
            means = [_mean(results, fit, key) for results in tables.values()]
            yield f"| {fit} | {' | '.join('' if mean is None else f'{mean:.3f}' for mean in means)} |"
    for key, sign in (("c2st", 1), ("tstr", -1)):
        regrets = list(_regrets(tables, key, sign))
        if regrets:
            yield f"\nRegret of auto in {FIGURES[key]}: mean {statistics.fmean(regrets):.4f}, most {max(regrets):.4f}"


def _regrets(tables: Mapping[str, Any], key: str, sign: int) -> Iterator[float]:
    """By table and epsilon how much worse what `auto` chooses is than the better of its two, in means of all seeds."""
    for results in tables.values():
        for epsilon in {fit.partition(":")[2] for fit in results if fit.startswith(ITS_TWO)}:
            means = {name: _mean(results, f"{name}:{epsilon}", key) for name in ITS_TWO}
            chosen = {run.get("auto") for name in ITS_TWO for run in results.get(f"{name}:{epsilon}", {}).values()}
            if None not in means.values() and len(chosen) == 1 and chosen <= means.keys():
                yield sign * (means[chosen.pop()] - min(means.values(), key=lambda mean: sign * mean))


def _mean(results: Mapping[str, Any], fit: str, key: str) -> float | None:
    values = [run[key] for run in results.get(fit, {}).values() if key in run]
    return statistics.fmean(values) if values else None


if __name__ == "__main__":
    main(sys.argv[1:])
