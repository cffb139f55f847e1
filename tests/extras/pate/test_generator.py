"""PATE-GAN: votes of teachers and their cost, what student and generator see, a cut, and what it learns."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

pytest.importorskip("torch")

import torch

from synth.dp.events import GaussianEvent, gaussian_of_rho
from synth.dp.schedule import Schedule
from synth.generators import registry
from synth.neural.dp_ctgan import ReleasedGenerator
from synth.neural.encoding import Layout, Span
from synth.schema import Schema, build_schema
from tests.synth.generators import test_contract
from tests.synth.generators.test_nothing_but_noise import differences, held
from understudy.extras.pate import teachers as module
from understudy.extras.pate.generator import VOTES, PateGan
from understudy.extras.pate.teachers import Similarity, Teachers, dealt_to, train

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


LAYOUT = Layout(tuple(Span(name, size, whole=True) for name, size in (("a", 2), ("b", 3), ("c", 4))))
KEY = b"public"
Codes = NDArray[np.int64]


def rows(n: int, seed: int) -> Codes:
    """Rows of few codes, so that many are equal."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, size, n) for size in LAYOUT.sizes], axis=1)


def similarity() -> Similarity:
    shares = np.concatenate([np.full(size, 1 / size) for size in LAYOUT.sizes])
    return Similarity(shares, LAYOUT)


def voting(codes: Codes, owner: Codes | None, n_teachers: int, seed: int = 0) -> NDArray[np.bool_]:
    """The vote of each teacher alone on each row shown, shape (n_teachers, n_shown)."""
    dealt = Teachers.dealt(codes, owner, n_teachers, KEY)
    shown, generated = rows(12, 100 + seed), rows(40, 200 + seed)
    alone = []
    for teacher in range(n_teachers):
        own = dealt.codes[dealt.teacher == teacher]
        teacher_alone = Teachers(own, np.zeros(len(own), dtype=np.int64), 1)
        alone.append(teacher_alone.votes(shown, generated, similarity()) == 1)
    np.testing.assert_array_equal(np.sum(alone, axis=0), dealt.votes(shown, generated, similarity()))
    return np.array(alone)


def less_one(codes: Codes, owner: Codes | None) -> Iterator[tuple[Codes, Codes | None]]:
    """The table without each of its units: rows really gone, units numbered anew."""
    units = np.arange(len(codes)) if owner is None else owner
    for gone in np.unique(units):
        left = units != gone
        yield codes[left], None if owner is None else np.unique(owner[left], return_inverse=True)[1]


def teachers_that_change(n_teachers: int) -> int:
    """The most teachers that change where a unit is gone, over all units of some tables."""
    most = 0
    for seed in range(3):
        codes = rows(30, seed)
        for owner in (None, np.sort(np.random.default_rng(seed).integers(0, 12, 30))):
            whole = voting(codes, _numbered(owner), n_teachers, seed)
            for fewer, who in less_one(codes, _numbered(owner)):
                changed = (voting(fewer, who, n_teachers, seed) != whole).any(axis=1)
                most = max(most, int(changed.sum()))
    return most


def _numbered(owner: Codes | None) -> Codes | None:
    return None if owner is None else np.unique(owner, return_inverse=True)[1]


@pytest.mark.parametrize("n_teachers", [1, 5, 40])
def test_one_unit_less_changes_one_teacher_and_each_count_by_one_at_most(n_teachers: int) -> None:
    # Equal to what `voting` asserts of sums: a teacher's votes are those of its own rows, beside others or alone.
    assert teachers_that_change(n_teachers) == 1


def _by_place(codes: Codes, owner: Codes | None, n_teachers: int, key: bytes) -> Codes:
    places = np.arange(len(codes)) if owner is None else owner
    return places % n_teachers


def _by_number(codes: Codes, owner: Codes | None, n_teachers: int, key: bytes) -> Codes:
    return (dealt_to(codes, owner, n_teachers, key) + len(codes)) % n_teachers


def _rows_of_a_unit_apart(codes: Codes, owner: Codes | None, n_teachers: int, key: bytes) -> Codes:
    return dealt_to(codes, None, n_teachers, key)


def _votes_of_all(self: Teachers, shown: Codes, generated: Codes, similar: Similarity) -> Codes:
    tables = similar.tables(shown)
    level = similar.of(tables, generated).sum(axis=0) // len(generated)
    votes_real = similar.of(tables, np.asarray(self.codes)).sum(axis=0) > len(self.codes) * level
    return np.where(votes_real, self.n_teachers, 0)


MUTANTS: dict[str, Any] = {
    "dealt by place": ("dealt_to", _by_place),
    "dealt by the number of rows": ("dealt_to", _by_number),
    "the rows of a unit dealt to several": ("dealt_to", _rows_of_a_unit_apart),
}


@pytest.mark.parametrize("fault", MUTANTS)
def test_a_fault_in_dealing_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, *MUTANTS[fault])
    assert teachers_that_change(5) > 1


def test_teachers_that_share_rows_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Teachers, "votes", _votes_of_all)
    with pytest.raises(AssertionError):
        teachers_that_change(5)


def test_the_order_of_rows_and_of_units_has_no_say() -> None:
    codes, owner = rows(200, 0), np.random.default_rng(0).integers(0, 60, 200)
    order = np.random.default_rng(1).permutation(200)
    shown, generated = rows(12, 2), rows(40, 3)
    for who in (None, _numbered(owner)):
        moved = None if who is None else who[order]
        first, other = (
            Teachers.dealt(table, ids, 7, KEY).votes(shown, generated, similarity())
            for table, ids in ((codes, who), (codes[order], moved))
        )
        np.testing.assert_array_equal(first, other)


def test_similarities_are_products_of_agreements_beyond_expectation() -> None:
    shares = np.array([0.5, 0.5, 0.2, 0.3, 0.5, 0.1, 0.2, 0.3, 0.4])
    computed = Similarity(shares, LAYOUT)
    shown, others = rows(6, 0), rows(9, 1)
    weight = module.FINENESS / np.sqrt(shares + module.RAREST_SHARE)
    whole, expected = np.rint(weight), np.rint(weight * shares)
    by_hand = np.zeros((9, 6))
    for i, other in enumerate(others):
        for j, row in enumerate(shown):
            positions = row + LAYOUT.offsets
            agreement = (other == row) * whole[positions] - expected[positions]
            by_hand[i, j] = sum(agreement[a] * agreement[b] for a in range(3) for b in range(a))
    np.testing.assert_array_equal(computed.of(computed.tables(shown), others), by_hand)
