"""The benchmark of vendors: rows in odd forms are the same rows, and it is told which ranking is right."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.vendors import COPIES, FRESH, MST, ODD, SHUFFLED, TREES, VENDORS, is_right, odd, shown
from evaluate.comparison import ComparisonTerms, Order, Rank, VendorRanking, VendorResult
from synth.infer import infer_schema
from synth.table import conform
from synth.table.translating import translate

BEHIND = {FRESH: (), ODD: (), TREES: (FRESH, ODD), MST: (FRESH, ODD, TREES), SHUFFLED: (FRESH, ODD, TREES, MST)}


def ranking(behind: dict[str, tuple[str, ...]]) -> VendorRanking:
    vendors = tuple(
        VendorResult(
            name, f"{name}.csv", "ranked" if name in behind else "disqualified",
            "it breaks rules on fidelity: x" if name == SHUFFLED else "",
            9, 9, (), (), 0, 0, {}, None, (), (),
        )
        for name in VENDORS
    )  # fmt: skip
    order = tuple(Rank(name, len(ahead) + 1, ahead, "a") for name, ahead in behind.items())
    terms = ComparisonTerms(9, None, 9, 0, "internal")
    return VendorRanking(terms, vendors, Order("", 0.05, 0, order, (), ()), None)


def test_rows_in_odd_forms_are_the_same_rows() -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({
        "kind": rng.choice(["one", "another"], 200), "amount": rng.lognormal(7, 1, 200).round(2), "who": range(200),
        "gap": pd.Series(rng.integers(0, 5_000, 200)).where(rng.random(200) > 0.2),
    })  # fmt: skip
    schema = infer_schema(rows)
    translated, counts = translate(odd(rows, schema), schema)
    pd.testing.assert_frame_equal(conform(translated, schema)[list(schema.kept)], conform(rows, schema))
    assert counts


def test_the_right_ranking_is_told_from_others() -> None:
    assert is_right(ranking(BEHIND))
    assert is_right(ranking({name: ahead for name, ahead in BEHIND.items() if name != SHUFFLED}))  # which is barred
    assert shown(ranking(BEHIND)) == {
        FRESH: "1",
        ODD: "1",
        TREES: "3",
        MST: "4",
        SHUFFLED: "5*",
        COPIES: "disqualified",
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {COPIES: ()}, {ODD: (FRESH,)}, {TREES: (MST,)}, {SHUFFLED: (FRESH, ODD, TREES)},
        {FRESH: (TREES,)},
    ],
)  # fmt: skip
def test_other_rankings_are_wrong(wrong: dict[str, tuple[str, ...]]) -> None:
    assert not is_right(ranking({**BEHIND, **wrong}))
