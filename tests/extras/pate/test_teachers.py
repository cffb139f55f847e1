"""Teachers: each unit has one, and a unit that is gone moves every count of votes by 1 at most, by brute force."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from synth.neural.encoding import Layout, Span
from understudy.extras.pate import teachers as module
from understudy.extras.pate.teachers import Similarity, Teachers, dealt_to

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
