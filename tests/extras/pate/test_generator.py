"""PATE-GAN: what its votes cost, what student and generator see, how it goes on after a cut, and what it learns."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")

import torch

from synth.dp.events import GaussianEvent, gaussian_of_rho
from synth.dp.schedule import Schedule
from synth.generators import registry
from synth.neural.dp_ctgan import ReleasedGenerator
from synth.schema import Schema, build_schema
from synth.transforms.layout import Layout
from tests.synth.generators import test_contract
from tests.synth.generators.test_nothing_but_noise import differences, held
from understudy.extras.pate.generator import VOTES, PateGan
from understudy.extras.pate.teachers import Teachers, train

COLUMNS: dict[str, Any] = {
    "x": {"kind": "categorical", "categories": ["a", "b", "c"]},
    "y": {"kind": "categorical", "categories": ["a", "b", "c"]},
    "z": {"kind": "boolean"},
}


def schema_of(n_units: int) -> Schema:
    return build_schema({"status": "declared", "n_units": n_units, "columns": COLUMNS})


def table(n: int, seed: int = 0) -> pd.DataFrame:
    """`x` and `y` are mostly equal, `z` goes its own way."""
    rng = np.random.default_rng(seed)
    x = rng.choice(["a", "b", "c"], n)
    y = np.where(rng.random(n) < 0.9, x, rng.choice(["a", "b", "c"], n))
    return pd.DataFrame({"x": x, "y": y, "z": pd.array(rng.random(n) < 0.5, dtype="boolean")})


def pategan(**parameters: Any) -> PateGan:
    generator = registry.generator("pategan", **parameters)
    assert isinstance(generator, PateGan)
    return generator


def scheduled(generator: PateGan, schema: Schema) -> Schedule:
    schedule = generator.schedule(schema)
    assert schedule is not None
    return schedule


@pytest.mark.parametrize(("n_labels", "moved"), [(1, 1), (9, 3), (65, 9)])
def test_a_round_of_votes_is_one_release_that_a_unit_moves_by_the_root_of_its_labels(n_labels: int, moved: int) -> None:
    schema = schema_of(10_000).model_copy(update={"max_rows_per_unit": 1})
    votes = scheduled(pategan(epsilon=1.0, labels_per_round=n_labels, rounds=7), schema).required(VOTES, GaussianEvent)
    assert (votes.count, votes.sensitivity, votes.whole) == (7, moved, True)
    assert moved**2 >= n_labels


def joint(frame: pd.DataFrame) -> float:
    """Share of rows whose `x` and `y` are equal: about .93 of real ones, .33 of independent columns."""
    return float((frame["x"] == frame["y"]).mean())


@pytest.mark.statistical
def test_columns_that_go_together_do_so_in_the_synthetic_table() -> None:
    settings = {"rounds": 10, "generator_steps": 20, "generator_widths": (32,), "d_latent": 8}
    model = pategan(epsilon=10.0, **settings).fit(table(3_000), schema_of(3_000))
    assert joint(model.sample(2_000, seed=0)) > 0.55


def _shown_real_rows(spec: Any, teachers: Teachers, *more: Any) -> Any:
    """Teachers vote on real rows, which the student is then shown."""
    drawn = ReleasedGenerator.rows

    def rows(self: ReleasedGenerator) -> torch.Tensor:
        codes = drawn(self)
        spread = np.linspace(0, len(teachers.codes) - 1, 5).astype(int)  # beside four generated ones
        codes[:5] = torch.from_numpy(teachers.codes[spread].astype(np.int64))
        return codes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReleasedGenerator, "rows", rows)
        return train(spec, teachers, *more)


def _told_exact_votes(spec: Any, teachers: Teachers, layout: Layout, one_way: Any, release: Any, *more: Any) -> Any:
    def exact(counts: np.ndarray) -> np.ndarray:
        release(counts)
        return counts

    return train(spec, teachers, layout, one_way, exact, *more)


def _stopped_by_the_table(spec: Any, teachers: Teachers, *more: Any) -> Any:
    steps = 2 + len(teachers.codes) % 2 + len(teachers.codes) // 100
    return train(spec.model_copy(update={"generator_steps": steps}), teachers, *more)


@pytest.mark.parametrize(
    "fault", [_shown_real_rows, _told_exact_votes, _stopped_by_the_table], ids=lambda f: f.__name__
)
def test_what_reaches_student_or_generator_without_noise_is_caught(
    fault: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("synth.neural.sampling.N_MATCHED_ROWS", 200)
    frames = {what: held(True)[what] for what in ("plain", "odd")}
    for name, planted in (("sound", train), ("faulty", fault)):
        monkeypatch.setattr("understudy.extras.pate.teachers.train", planted)
        (tmp_path / name).mkdir()
        different = differences("pategan", True, frames, tmp_path / name)
        assert (different != []) == (name == "faulty"), name


def test_a_lost_root_of_the_labels_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    books = test_contract.test_the_noise_that_is_drawn_costs_what_the_statement_claims

    def by_one(what: str, rho: float, *, count: int, sensitivity: int) -> GaussianEvent:
        return gaussian_of_rho(what, rho, count=count, sensitivity=1 if what == VOTES else sensitivity)

    monkeypatch.setattr("understudy.extras.pate.generator.gaussian_of_rho", by_one)
    test_contract.scheduled.cache_clear()
    with pytest.raises(AssertionError) as caught:
        books("pategan", 3)
    assert caught.traceback[-1].name == books.__name__
    test_contract.scheduled.cache_clear()
