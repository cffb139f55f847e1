import numpy as np
import pytest

from synth.domain.discretizer import aliases


def exact(group: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """The probability of every cell given its group, as the tables hold it."""
    tables = aliases(group, mass)
    chance = np.zeros(len(group))
    np.add.at(chance, tables.order, tables.share)
    np.add.at(chance, tables.order[tables.alias], 1 - tables.share)
    return chance / tables.sizes[group]


@pytest.mark.parametrize("seed", range(20))
def test_the_tables_hold_the_masses_exactly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.concatenate([np.arange(8), rng.integers(0, 8, 300)]))
    mass = rng.gamma(0.2, size=308) * (rng.random(308) < 0.8) * 10.0 ** rng.integers(-9, 9)
    totals = np.bincount(group, weights=mass)
    np.testing.assert_allclose(exact(group, mass), mass / totals[group], atol=1e-12)


@pytest.mark.parametrize("mass", [[0.1] * 10, [1.0, 0.0, 0.0], [0.0, 0.0, 3.0, 1e-300], [1e300, 1e-300]])
def test_even_lopsided_and_empty_cells_keep_their_masses(mass: list[float]) -> None:
    group = np.zeros(len(mass), dtype=np.int64)
    np.testing.assert_allclose(exact(group, np.array(mass)), np.array(mass) / np.sum(mass), atol=1e-15)


def test_a_cell_without_mass_is_never_drawn_and_a_group_without_any_gives_its_last() -> None:
    rng = np.random.default_rng(0)
    tables = aliases(np.array([0, 1, 1, 0, 2, 2, 1]), np.array([0.0, 1.0, 0.0, 2.0, 0.0, 0.0, 1.0]))
    groups = rng.integers(0, 3, 3000)
    drawn = tables.draw(groups, rng)
    assert set(drawn[groups == 0]) == {3}
    assert set(drawn[groups == 1]) == {1, 6}
    assert set(drawn[groups == 2]) == {5}


def test_cells_are_drawn_in_proportion_to_their_mass() -> None:
    """Of 200,000 draws each cell has its share within 5 standard errors, whatever the order of groups."""
    rng = np.random.default_rng(1)
    group, mass = np.array([0, 1, 0, 1, 1, 0]), np.array([1.0, 5.0, 2.0, 1.0, 0.5, 7.0])
    groups = rng.permutation(np.repeat([0, 1], 100_000))
    counts = np.bincount(aliases(group, mass).draw(groups, rng), minlength=6)
    share = mass / np.bincount(group, weights=mass)[group]
    assert (np.abs(counts / 100_000 - share) < 5 * np.sqrt(share * (1 - share) / 100_000)).all()


def test_groups_of_one_cell_need_no_draw() -> None:
    tables = aliases(np.array([2, 0, 1]), np.ones(3))
    assert tables.draw(np.array([0, 1, 2, 0]), np.random.default_rng(0)).tolist() == [1, 2, 0, 1]
    assert len(tables.draw(np.zeros(0, dtype=np.int64), np.random.default_rng(0))) == 0
