"""A private fit whose every draw is answered without a look at what was asked: then nothing of the table is left.

Tables of any content and size, in memory or in files, must come to the same model byte for byte, and on the way to the
same questions, messages and log. Whatever else reached them, an exact count say, would show. Each lie in the table
below must be caught.
"""

import importlib.util
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth import extras
from synth.domain.counts import Coarsening
from synth.dp.budget import Budget
from synth.dp.schedule import Schedule
from synth.dp.statement import PrivacyStatement
from synth.generators import registry
from synth.generators.base import PrivateGenerator
from synth.generators.fitting import private_fit
from synth.generators.fitting.training_data import PrivateRows, TrainingTable
from synth.generators.latent_class import LatentClass
from synth.schema import Schema, build_schema
from tests.synth.generators.deaf_noise import N_UNITS, Watched

K = 3
HISTORIES, BY_PAIRS = "of histories", "by noisy pairs"
SMALL: dict[str, dict[str, Any]] = {
    "mst": {"n_iterations": 5},
    "aim": {"n_iterations": 5, "rounds": 3, "n_draws": 300},
    # With less for single columns noise would leave no codes to merge.
    "latent_class": {"rounds": 3, "n_classes": 20, "coarse_codes": 2, "columns_share": 0.99},
    "ctgan": {"steps": 2, "d_latent": 4, "generator_widths": (8,), "n_bins": 6},
    "tvae": {"steps": 2, "d_latent": 2, "encoder_widths": (8,), "decoder_widths": (8,), "n_bins": 6},
    f"mst {BY_PAIRS}": {"n_iterations": 5, "choices": "noisy_pairs"},
    f"aim {BY_PAIRS}": {"n_iterations": 5, "rounds": 3, "n_draws": 300, "choices": "noisy_pairs"},
    "pategan": {
        "rounds": 3, "labels_per_round": 9, "generator_steps": 2, "d_latent": 2, "generator_widths": (8,), "n_bins": 6,
    },
    f"mst {HISTORIES}": {"n_iterations": 5}, f"aim {HISTORIES}": {"n_iterations": 5, "rounds": 3, "n_draws": 300},
}  # fmt: skip
PRIVATE = [
    name for name in registry.names() if registry.generator_class(name).private and name not in extras.entries("audit")
]
"""Whose noise a curator adds; `test_local` does the same where respondents randomize."""
VARIANTS = sorted({*PRIVATE, *SMALL})
BESIDE = [f"{name} {kind}" for name in ("mst", "aim") for kind in (HISTORIES, BY_PAIRS)]
QUICK = [("independent", False), *((name, True) for name in [*PRIVATE, *BESIDE])]
"""Where the unit is a row, what differs is in what all generators share."""
EVERY_FIT = [(v, entities) for v in VARIANTS for entities in (False, True) if entities or not v.endswith(HISTORIES)]
FITS = [pytest.param(*fit, marks=[] if fit in QUICK else pytest.mark.slow) for fit in EVERY_FIT]
COLUMNS: dict[str, Any] = {
    "x": {"kind": "integer", "bounds": [0, 8], "measure_spikes": True, "missing": True},
    "y": {"kind": "boolean"},
    "binned": {"kind": "integer", "bounds": [0, 9], "bins": [0, 2, 4, 6, 8, 9]},  # codes that noise merges nowhere
    "z": {"kind": "categorical", "categories": ["a", "b", "c"]},
    "length": {"kind": "real", "measure": True, "measure_spikes": True},
    "day": {"kind": "date", "measure": True},
    "job": {"kind": "categorical", "measure": True},
}


def people(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "x": pd.array(rng.integers(0, 9, n), dtype="Int64"),
        "y": pd.array(rng.random(n) < 0.5, dtype="boolean"),
        "binned": pd.array(rng.integers(0, 10, n), dtype="Int64"),
        "z": rng.choice(["a", "b", "c"], n),
        "length": rng.normal(170, 10, n),
        "day": pd.Series(np.datetime64("2020-01-01", "us") + rng.integers(0, 300, n) * np.timedelta64(1, "D")),
        "job": rng.choice(["clerk", "cook"], n),
    })  # fmt: skip


def tables() -> Iterator[tuple[str, pd.DataFrame]]:
    """Tables that have nothing in common but their columns; "who" is left out where the unit is a row."""
    plain = people(80, 0).assign(who=np.arange(80) // 2)
    yield "plain", plain
    odd = people(150, 1)
    odd["x"], odd["y"], odd["z"], odd["job"] = pd.NA, True, "never heard of", [f"spy {i}" for i in range(150)]
    odd["x"], odd["y"] = odd["x"].astype("Int64"), odd["y"].astype("boolean")
    odd["binned"] = odd["binned"] // 8
    odd["length"] = np.r_[np.full(75, 1e9), np.full(74, -1e-3), np.nan]
    odd["day"] = pd.Timestamp("1789-07-14").as_unit("us")
    yield "odd", odd.assign(who=np.r_[np.full(100, 999), np.arange(50)])
    yield "empty", plain.iloc[:0]


@cache
def specified(variant: str, entities: bool) -> tuple[PrivateGenerator, Schema, Schedule]:
    """A generator, a schema of rows or of entities, and what a fit will draw."""
    who = {"who": {"kind": "identifier", "bounds": [0, 10**6]}}
    content: dict[str, Any] = {"status": "declared", "n_units": N_UNITS, "columns": COLUMNS}
    if entities:
        content |= {"entity": "who", "max_rows_per_unit": K, "columns": {**who, **COLUMNS}}
    if variant.endswith(HISTORIES):
        content |= {"order": "day", "nondecreasing_in_entity": ["length"], "constant_in_entity": ["z"]}
    schema = build_schema(content)
    epsilon = 100.0 if variant.endswith(HISTORIES) else 2.0  # with less, pairs of rows would be noise
    generator = registry.generator(variant.split()[0], epsilon=epsilon, **SMALL.get(variant, {}))
    assert isinstance(generator, PrivateGenerator)
    schedule = generator.schedule(schema)
    assert schedule is not None
    return generator, schema, schedule


def left(variant: str, entities: bool, table: Any, folder: Path) -> dict[str, Any]:
    """All that a fit leaves: the files of the model, its statement and a sample, questions, messages, the log."""
    generator, schema, schedule = specified(variant, entities)
    budget, told = Watched(schedule), list[tuple[str, float | None]]()
    more = {"place": folder / "place"} if variant == "tvae" else {}  # one log stands for both networks
    model: Any = generator.fit(
        table, schema, budget=budget, progress=lambda what, share: told.append((what, share)), **more
    )
    model.save(folder / "model")
    log = folder / "place" / "log.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()] if more else []
    assert len(lines) == (2 if more else 0)
    return {
        "statement": model.statement.to_dict(), "rows": model.default_rows, "questions": budget.deaf.questions,
        "messages": told, "log": [{**line, "seconds": None} for line in lines],
        "sample": model.sample(20, seed=0).to_csv(),
        **{path.name: path.read_bytes() for path in (folder / "model").iterdir()},
    }  # fmt: skip


def differences(variant: str, entities: bool, whole: Mapping[str, Any], folder: Path) -> list[str]:
    """Which parts of what is left are not the same for all tables."""
    result: list[str] = []
    first: dict[str, Any] | None = None
    for what, table in whole.items():
        (folder / what).mkdir()
        parts = left(variant, entities, table, folder / what)
        first = first or parts
        result += [f"{what}: {name}" for name in first if parts[name] != first[name]]
    return result


def held(entities: bool) -> dict[str, pd.DataFrame]:
    return {what: frame if entities else frame.drop(columns="who") for what, frame in tables()}


@pytest.fixture(autouse=True)
def public_randomness_is_the_same(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Networks start alike and are matched to released marginals on few rows: neither reads a real one."""
    monkeypatch.setattr("synth.generators.models.fitted.FITTED_ROWS", 100)
    if importlib.util.find_spec("torch") is None:
        yield
        return
    import torch

    monkeypatch.setattr(torch, "seed", lambda: torch.manual_seed(0).initial_seed())
    monkeypatch.setattr("synth.neural.sampling.N_MATCHED_ROWS", 200)
    monkeypatch.setattr("synth.neural.sampling.N_MATCHING_ROUNDS", 3)
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # of products as small as these, several threads only wait for each other
    yield
    torch.set_num_threads(n_threads)


@pytest.mark.statistical
@pytest.mark.parametrize(("variant", "entities"), FITS)
def test_what_a_private_fit_leaves_is_a_function_of_its_noisy_answers(
    variant: str, entities: bool, tmp_path: Path
) -> None:
    assert differences(variant, entities, held(entities), tmp_path) == []


_shares, _statement, _measure = (
    private_fit.PrivateFit.entity_shares,
    private_fit.PrivateFit.statement,
    private_fit.measure_domain,
)
_estimated, _of_all = LatentClass._estimated, Coarsening.of_all


def _rows_of_the_table(self: private_fit.PrivateFit) -> tuple[tuple[float, ...] | None, int]:
    return _shares(self)[0], max(len(self.train), 1)


def _noted_in_the_statement(self: private_fit.PrivateFit) -> PrivacyStatement | None:
    stated = _statement(self)
    assert stated is not None
    return replace(stated, versions={**stated.versions, "rows": str(len(self.train))})


class _Exact:
    """Spends as the budget does, and answers the first question about each column's bounds without noise."""

    def __init__(self, budget: Budget) -> None:
        self._budget, self._asked = budget, set[str]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._budget, name)

    def release(self, exact: np.ndarray, event: Any) -> np.ndarray:
        noisy = self._budget.release(exact, event)
        first = event.what not in self._asked
        self._asked.add(event.what)
        return exact * 1_000 if first else noisy


def _exact_coarse_bounds(train: TrainingTable, schema: Schema, budget: Budget) -> Schema:
    return _measure(train, schema, _Exact(budget))  # type: ignore[arg-type]


def _exact_spikes(train: TrainingTable, schema: Schema, budget: Budget) -> Schema:
    known = _measure(train, schema, budget)
    spikes = tuple(sorted(int(value) for value, n_rows in train.value_counts("x").items() if n_rows > 1))
    x = known.columns["x"].model_copy(update={"spikes": spikes})
    return known.model_copy(update={"columns": {**known.columns, "x": x}})


def _exact_expected_batch(self: PrivateRows) -> float:
    return self.event.sampling_rate * max(len(self.units()), 1)


def _exact_groups(self: LatentClass, fit: private_fit.PrivateFit, events: Any, discretizer: Any, *more: Any) -> Any:
    table = fit.train.coded(discretizer)
    exact = {name: table.counts((name,)) for name in discretizer.sizes}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Coarsening, "of_all", lambda known, masses, *limits: _of_all(known, exact, *limits))
        return _estimated(self, fit, events, discretizer, *more)


Plant = tuple[Any, str, Any]
MUTANTS: Sequence[tuple[str, Plant, str]] = (
    (
        "as many rows as the table has, unless told",
        (private_fit.PrivateFit, "entity_shares", _rows_of_the_table),
        "independent",
    ),
    (
        "the number of rows in the statement",
        (private_fit.PrivateFit, "statement", _noted_in_the_statement),
        "independent",
    ),
    ("coarse bounds without noise", (private_fit, "measure_domain", _exact_coarse_bounds), "independent"),
    ("frequent values without noise", (private_fit, "measure_domain", _exact_spikes), "independent"),
    ("coarse codes of exact counts", (LatentClass, "_estimated", _exact_groups), "latent_class"),
    ("an exact expected batch", (PrivateRows, "expected_batch", property(_exact_expected_batch)), "tvae"),
)


@pytest.mark.parametrize(("plant", "variant"), [m[1:] for m in MUTANTS], ids=[m[0] for m in MUTANTS])
def test_a_lie_about_what_reaches_the_model_is_caught(
    plant: Plant, variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*plant)
    frames = held(True)
    assert differences(variant, True, {what: frames[what] for what in ("plain", "odd")}, tmp_path) != []
