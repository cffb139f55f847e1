"""Whether a relation that no longer holds fails the table, and one that holds does not."""

import numpy as np
import pandas as pd
import pytest

from evaluate.fidelity import relations
from evaluate.fidelity.relations import KEPT, LOST
from evaluate.gate.decision import finding_of
from evaluate.gate.policy import load_policy
from evaluate.result import Candidate
from evaluate.tables import Tables
from synth.schema import build_schema

BOUNDS = ["2010-01-01", "2030-01-01"]
SCHEMA = {
    "status": "declared",
    "columns": {
        "admitted": {"kind": "date", "bounds": BOUNDS},
        "discharged": {"kind": "date", "bounds": BOUNDS, "missing": True},
        "nights": {"kind": "integer", "bounds": [0, 60]},
        "price": {"kind": "real", "bounds": [0, 1e4], "decimals": 2},
    },
    "constraints": [{"kind": "inequality", "low": "admitted", "high": "discharged"}],
}


def stays(n: int, seed: int, broken: float = 0.0, by: int = 30) -> pd.DataFrame:
    """A share of the stays ends up to `by` days late; one in twenty has not ended."""
    rng = np.random.default_rng(seed)
    start, nights = rng.integers(0, 4000, n), rng.poisson(6, n)
    late = np.where(rng.random(n) < broken, rng.integers(1, by + 1, n), 0)
    first, last = (pd.Timestamp("2010-01-01") + pd.to_timedelta(x, unit="D") for x in (start, start + nights + late))
    ended = pd.Series(last).where(rng.random(n) > 0.05)
    return pd.DataFrame({"admitted": first, "discharged": ended, "nights": nights, "price": rng.random(n).round(2)})


def measured(train: pd.DataFrame, holdout: pd.DataFrame, synthetic: pd.DataFrame, schema=SCHEMA):
    return relations.measure(Tables.prepare(train, holdout, synthetic, build_schema(schema)))


@pytest.mark.parametrize("policy", ["internal", "partner", "public"])
def test_a_table_in_which_few_stays_end_as_they_should_fails_and_a_fresh_one_passes(policy):
    rule = next(rule for rule in load_policy(policy).rules if rule.measure == LOST)
    assert rule.severity == "fail"
    for broken, outcome in ((0.95, "FAIL"), (0.01, "PASS")):
        result = measured(stays(1200, 0, 0.01), stays(600, 1, 0.01), stays(1200, 2, broken))
        assert finding_of(Candidate("synthetic", result.estimates, result.failures), rule).outcome == outcome


def test_relations_are_written_out_with_what_is_left_of_them():
    result = measured(stays(1200, 0), stays(600, 1), stays(1200, 2, 0.9, by=600))
    worst, order = result.figures["relations"]
    assert worst["relation"] == "discharged = admitted + nights in days"
    assert (worst["real"], worst["reference"]) == ("0 days", 1.0)
    assert worst["synthetic"].startswith("0 to ") and worst["synthetic"].endswith("90 days")
    assert (order["relation"], order["kept"], order["real"]) == (
        "'admitted' is at most 'discharged'",
        1.0,
        "1 to 12 days",
    )
    kept = {each.subject: each for each in result.estimates if each.measure == KEPT}
    assert kept["discharged", "admitted", "nights"].value == pytest.approx(0.1, abs=0.03)
    assert kept["discharged", "admitted", "nights"].n == stays(1200, 2, 0.9, by=600)["discharged"].notna().sum()


@pytest.mark.parametrize(("n_ended", "shown"), [(0, "1 to 12 days"), (5, "1 to 13 days"), (595, None)])
def test_no_gap_of_a_single_row_is_shown(n_ended, shown):
    rare = stays(600, 1)
    rare.loc[: n_ended - 1, "discharged"] = rare["admitted"] + pd.Timedelta(days=777) if n_ended == 5 else pd.NaT
    drawn = measured(stays(1200, 0), rare, stays(1200, 2)).figures["relations"]
    assert next(row["real"] for row in drawn if "at most" in row["relation"]) == shown


@pytest.mark.statistical
def test_the_interval_of_the_loss_holds_what_is_lost():
    covered = []
    for seed in range(100):
        result = measured(stays(300, 3 * seed, 0.02), stays(300, 3 * seed + 1, 0.02), stays(300, 3 * seed + 2, 0.08))
        worst = result.estimates[0]
        covered.append(worst.low <= 0.06 <= worst.high)
    assert np.mean(covered) >= 0.9
