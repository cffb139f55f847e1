import numpy as np
import pytest

from synth.domain.counts import CodedTable

DOMAIN = {"a": 3, "b": 2, "c": 4}


@pytest.mark.parametrize("clique", [("a",), ("c", "a"), ("a", "b", "c"), ("b", "c", "a"), ()])
def test_counts_are_those_of_counting_row_by_row(clique: tuple[str, ...]) -> None:
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, size, 200) for size in DOMAIN.values()], axis=1).astype(np.int32)
    expected = np.zeros([DOMAIN[name] for name in clique], dtype=np.int64)
    for row in codes:
        expected[tuple(row[list(DOMAIN).index(name)] for name in clique)] += 1
    found = CodedTable(DOMAIN, codes).counts(clique)
    assert found.shape == expected.shape
    assert (found == expected).all()


def test_no_row_counts_nothing() -> None:
    table = CodedTable(DOMAIN, np.zeros((0, 3), dtype=np.int32))
    assert table.counts(("a", "b")).tolist() == [[0, 0]] * 3
