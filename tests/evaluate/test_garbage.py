"""Ruined tables beside what must tell them: which number breaks which limit, and that honest rows break none.

Relations that are ruined in made tables of 1,000 and 4,000 rows are in `fidelity/test_dependence.py`.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.spoiled_tables import spoiled_table, uniform
from evaluate.engine import measure_candidate
from evaluate.finding import finding_of
from evaluate.policy import Rule
from evaluate.result import Candidate
from evaluate.tables import Tables
from synth.infer import infer_schema
from synth.schema import Schema, build_schema
from synth.table import conform

RELATIONS, COLUMN, TAILS, VALID = (
    "pairs.dependence.floor_share", "pairs.dependence.floor_share.worst", "columns.tail.excess.mean", "validity.rows",
)  # fmt: skip
RULES = tuple(
    Rule(measure=measure, limit=limit, why="because")
    for measure, limit in ((RELATIONS, 0.75), (COLUMN, 0.5), (TAILS, 0.01), (VALID, 0.95))
)
MEASURES = ("validity", "fidelity.columns", "fidelity.pairs")
WHOLE = ("sorted", "comonotone", "anti-sorted", "shuffled")


def outcomes(tables: Tables) -> dict[str, str]:
    candidate: Candidate = measure_candidate("c", tables, measures=list(MEASURES))
    return {rule.measure: finding_of(candidate, rule).outcome for rule in RULES}


@pytest.mark.parametrize("n", [1_000, 4_000])
def test_tails_noise_and_scale_break_limits_in_made_tables_that_honest_rows_keep(n: int) -> None:
    columns = {
        "pay": {"kind": "real", "bounds": [0, 1e7], "decimals": 2}, "debt": {"kind": "integer", "bounds": [0, 10**7]},
        "score": {"kind": "real", "bounds": [-99, 99]}, "town": {"kind": "categorical", "categories": list("abcdef")},
    }  # fmt: skip
    schema, rng = build_schema({"status": "declared", "columns": columns}), np.random.default_rng(n)

    def rows(size: int) -> pd.DataFrame:
        hidden = rng.normal(size=size)
        town = np.array(list("abcdef"))[np.clip((hidden + rng.normal(size=size) / 2 + 3).astype(int), 0, 5)]
        pay, debt = (np.exp(mean + hidden + rng.normal(size=size) / 2).clip(0, 1e6) for mean in (7, 6))
        return pd.DataFrame({"pay": pay.round(2), "debt": debt.round().astype(int), "score": hidden, "town": town})

    train, holdout, fresh = rows(n), rows(n // 4), rows(n)

    def of(offered: pd.DataFrame) -> dict[str, str]:
        return outcomes(Tables.prepare(train, holdout, offered, schema))

    assert set(of(fresh).values()) == {"PASS"}
    assert of(spoiled_table("tails tripled", fresh, rng))[TAILS] == "FAIL"
    assert of(spoiled_table("10% of rows garbage", fresh, rng))[TAILS] == "FAIL"
    assert of(fresh.assign(pay=uniform(fresh["pay"], n, rng)))[COLUMN] == "FAIL"
    assert of(fresh.assign(debt=fresh["debt"] * 1_000))[TAILS] == "FAIL"
    far = fresh.assign(pay=fresh["pay"] * 1e6)
    assert of(far)[VALID] == "FAIL"
    assert of(conform(far, schema, outside="clamp"))[TAILS] == "FAIL"


def parts_of(path: Path) -> tuple[Schema, pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """A schema as `infer` proposes it and `declare` takes it over; training, held-out and fresh rows."""
    table = pd.read_csv(path, keep_default_na=False, na_values=[""]).drop(columns="id", errors="ignore")
    alone = {"status": "declared", "entity": None, "constant_in_entity": (), "max_rows_per_unit": 1}
    schema = Schema.model_validate({**dict(infer_schema(table)), **alone})
    table = table.sample(frac=1.0, random_state=0).reset_index(drop=True)
    ends = np.cumsum([min(6_000, int(len(table) * share)) for share in (0.5, 0.2, 0.3)])
    parts = (table[: ends[0]], table[ends[0] : ends[1]], table[ends[1] : ends[2]])
    train, holdout, fresh = (conform(part.reset_index(drop=True), schema)[list(schema.learned)] for part in parts)
    return schema, train, holdout, fresh


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["king_county_housing", "credit_default", "nist_ma2019", "hmeq", "adult", "german_credit", "insurance"]
)
def test_real_tables_that_are_ruined_fail_and_fresh_rows_do_not(name: str, shared_table: Callable[[str], Path]) -> None:
    schema, train, holdout, fresh = parts_of(shared_table(f"{name}.csv.gz"))
    rng, small = np.random.default_rng(1), name in ("german_credit", "insurance")
    strongest = {"king_county_housing": "sqft_living", "credit_default": "BILL_AMT3", "nist_ma2019": "AGEP",
                 "hmeq": "VALUE", "adult": "age", "german_credit": "", "insurance": "charges"}[name]  # fmt: skip

    def of(offered: pd.DataFrame) -> dict[str, str]:
        return outcomes(Tables.prepare(train, holdout, offered, schema))

    honest = of(fresh)
    assert "FAIL" not in honest.values()
    assert small or set(honest.values()) == {"PASS"}
    for kind in (*WHOLE, "blocks shuffled", "10% of rows garbage", "tails tripled"):
        found = of(spoiled_table(kind, fresh, rng))
        decides = {found[RELATIONS]} if kind in WHOLE else set(found.values())
        assert "FAIL" in decides or (small and "INCONCLUSIVE" in decides), kind
        assert kind != "tails tripled" or found[TAILS] != "PASS"
    if strongest:
        for moved in (rng.permutation(fresh[strongest]), uniform(fresh[strongest], len(fresh), rng)):
            assert of(fresh.assign(**{strongest: moved}))[COLUMN] == "FAIL"
