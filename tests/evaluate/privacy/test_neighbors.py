import gc
import weakref

import numpy as np

from evaluate.privacy import neighbors
from evaluate.privacy.neighbors import Rows, nearest, space_of


def brute_force(targets: Rows, pool: Rows, k: int) -> np.ndarray:
    gaps = targets.points[:, None, :].astype(float) - pool.points[None].astype(float)
    return np.sort(np.sqrt((gaps**2).sum(axis=2)), axis=1)[:, :k]


def test_nearest_rows_are_those_of_brute_force(population, draw, monkeypatch):
    monkeypatch.setattr(neighbors, "CHUNK_ROWS", 70)
    monkeypatch.setattr(neighbors, "BLOCK_ROWS", 33)
    space = space_of(draw(population, (200, 100, 100, 150), seed=1))
    found = nearest(space.synthetic, space.train, k=2)
    assert np.allclose(found, brute_force(space.synthetic, space.train, 2), atol=1e-4)


def test_equal_rows_and_only_they_are_at_distance_zero(population, draw):
    tables = draw(population, (200, 100, 100, 150), seed=2, leak=0.2)
    space = space_of(tables)
    equal = np.isin(space.synthetic.keys, space.train.keys)
    assert equal.any()
    assert np.array_equal(nearest(space.synthetic, space.train)[:, 0] == 0, equal)


def test_numbers_too_close_to_tell_are_not_equal(evaluate_frames, make):
    rng = np.random.default_rng(0)
    train, fresh = make["one column"](100, rng), make["one column"](100, rng)
    beyond = train.assign(x=train["x"].max() + 1 + np.arange(100.0))
    distances = nearest(*(lambda s: (s.synthetic, s.train))(space_of(evaluate_frames(train, fresh, fresh, beyond))))
    assert (distances > 0).all()


def test_the_distance_of_categories_counts_the_columns_that_differ(evaluate_frames, make):
    frame = make["all categorical"](100, np.random.default_rng(3))
    other = frame.iloc[:1].assign(c0="v0" if frame["c0"].iloc[0] != "v0" else "v1")
    space = space_of(evaluate_frames(frame.iloc[:1], frame, frame, other))
    assert nearest(space.synthetic, space.train)[0, 0] == 1.0


def test_the_space_is_built_once_and_goes_with_its_tables(draw, make):
    tables = draw(make["mixed"], (60, 40, 40, 50), seed=4)
    space = space_of(tables)
    assert space_of(tables) is space
    gone = weakref.ref(space)
    del tables, space
    gc.collect()
    assert gone() is None
