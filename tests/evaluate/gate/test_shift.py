"""Whether train and holdout are of one population, and what a verdict makes of it, also from a damaged file."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from evaluate.fidelity.two_samples import _chi_square, _repeats, _twins, counted, shift_of
from evaluate.gate.decision import finding_of
from evaluate.gate.policy import Policy, Rule, load_policy, shipped
from evaluate.gate.verdict import judge_candidate, rests_on_holdout
from evaluate.metrics import GATEABLE
from evaluate.real_facts import LEAST_AUC, LEAST_EFFECT, LEAST_TWINS, LEVEL, MOST_UNSEEN, REMEDY, RealFacts, Shift
from evaluate.result import Candidate, Estimate
from evaluate.tables import Real
from synth.schema import build_schema
from synth.split import split_table
from tests.evaluations import facts

SCHEMA = {
    "status": "declared",
    "target": "ill",
    "columns": {
        "age": {"kind": "integer", "bounds": [0, 120]},
        "income": {"kind": "real", "bounds": [0, 1e6], "decimals": 1, "missing": True},
        "town": {"kind": "categorical", "categories": list("abcdefgh")},
        "ill": {"kind": "boolean"},
    },
}
AUC, COPIED = "privacy.membership.auc", "privacy.copies.unique.excess"
ALIKE = Shift(n_train=100, n_holdout=100, auc=0.5, low=0.4, high=0.6, p_value=0.5)
OTHER = Shift(n_train=100, n_holdout=100, auc=0.9, low=0.8, high=0.95, p_value=1e-9)
UNKNOWN = Shift(untested="it broke down")


def population(n: int, rng: np.random.Generator) -> pd.DataFrame:
    age = rng.integers(18, 90, n)
    income = np.round(rng.lognormal(3 + age / 90, 0.5), 1)
    town = np.array(list("abcdefgh"))[np.minimum(rng.geometric(0.3, n), 8) - 1]
    frame = pd.DataFrame({"age": age, "income": income, "town": town, "ill": rng.random(n) < age / 120})
    frame.loc[rng.random(n) < 0.1, "income"] = np.nan
    return frame


def shift(train: pd.DataFrame, holdout: pd.DataFrame, **schema: Any) -> Shift:
    return shift_of(Real.prepare(train, holdout, build_schema({**SCHEMA, **schema}), outside="clamp"))


def dealt(way: str, n_rows: int, seed: int) -> Shift:
    """The shift between the sides of an honest split of one population, as users split."""
    if way == "in small classes":  # stratified on classes of four rows, two of them equal
        levels = [f"c{position:04d}" for position in range(3 * n_rows // 2)]
        columns = {"code": {"kind": "categorical", "categories": levels}, "x": {"kind": "integer", "bounds": [0, 2]}}
        schema = {"target": "code", "columns": columns}
        rows = pd.DataFrame({"code": np.repeat(levels, 4), "x": np.tile([0, 0, 1, 2], len(levels))})
        split = split_table(rows, build_schema({**SCHEMA, **schema}), holdout_share=0.3, seed=seed)
        return shift(split.train, split.holdout, **schema)
    rows = population(n_rows, np.random.default_rng([seed, 1]))
    if way == "at random":
        return shift(rows[: n_rows // 3], rows[n_rows // 3 :])
    if way != "by entity":  # stratified on the target, or by hashes of rows
        split = split_table(rows, build_schema(SCHEMA), holdout_share=0.3, seed=seed, private=way == "by hash")
        return shift(split.train, split.holdout)
    rng = np.random.default_rng([seed, 2])
    visits = rows.assign(person=np.arange(n_rows))
    visits = visits.loc[visits.index.repeat(rng.integers(1, 12, n_rows))].reset_index(drop=True)
    columns = {**SCHEMA["columns"], "person": {"kind": "identifier", "bounds": [0, 10**6]}}  # type: ignore[dict-item]
    more: dict[str, Any] = {"columns": columns, "entity": "person", "max_rows_per_unit": 12}
    split = split_table(visits, build_schema({**SCHEMA, **more}), holdout_share=0.3, seed=seed)
    result = shift(split.train, split.holdout, **more)
    assert result.n_train + result.n_holdout == n_rows  # however many visits a person made
    return result


WAYS = ("at random", "stratified", "by entity", "by hash", "in small classes")


def test_samples_of_one_population_are_not_said_to_differ() -> None:
    result = [dealt(way, 300, seed) for seed in range(2) for way in WAYS[seed::2]]
    assert not any(each.differs for each in result)
    assert 0.1 < np.mean([each.p_value for each in result]) < 0.9


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_at_most_one_honest_split_in_a_thousand_is_said_to_differ() -> None:
    result = [dealt(way, 400, seed) for seed in range(300) for way in WAYS]
    # 1,500 times LEVEL is .75, and five or more come once in a thousand.
    assert sum(each.differs for each in result) <= 4
    p_values = np.array([each.p_value for each in result])
    for share in (0.01, 0.05, 0.5):
        assert (p_values <= share).mean() <= share + 3.3 * np.sqrt(share * (1 - share) / len(p_values))


@pytest.mark.parametrize(("n_train", "n_holdout", "n_rare"), [(2_700, 300, 105), (1_500, 1_500, 20)])
def test_p_values_of_a_rare_level_hold_far_out(n_train: int, n_holdout: int, n_rare: int) -> None:
    n_rows, rare = n_train + n_holdout, np.arange(n_rare + 1)
    tables = (np.array([[n_rare - x, n_train - n_rare + x], [x, n_holdout - x]]) for x in rare)
    p_values = np.array([_chi_square(table).p_value for table in tables])
    chances = stats.hypergeom.pmf(rare, n_rows, n_rare, n_holdout)  # of so many among the holdout's
    # Chances are summed, not simulated. An excess is chi-square's, which is smooth where counts go in steps. Near .01
    # it is up to 16%. Far out, where the tests reject, there is none.
    for share in (0.01, 1e-3, 1e-4, 1e-5, 1e-6):
        assert chances[p_values <= share].sum() <= (1.2 if share == 0.01 else 1.0) * share, share
    assert chances[p_values <= 1e-3].sum() > 1e-5


def codes(n: int, rng: np.random.Generator, **more: Any) -> Shift:
    """The shift of two tables of a number and a code of 600 levels, and what `more` makes of either."""
    levels = [f"c{position:03d}" for position in range(600)]
    columns = {"x": {"kind": "real", "bounds": [-50, 50], "missing": True},
               "code": {"kind": "categorical", "categories": levels}}  # fmt: skip
    sides = []
    for side, size in (("train", n), ("holdout", more.get("n_holdout", n))):
        frame = pd.DataFrame({"x": rng.normal(size=size), "code": np.array(levels)[rng.integers(0, 600, size)]})
        sides.append(more.get(side, lambda frame: frame)(frame))
    return shift_of(Real.prepare(*sides, build_schema({"status": "declared", "columns": columns})))


def test_a_fifth_of_a_deviation_is_seen_in_five_thousand_rows_and_rare_codes_of_either_side_are() -> None:
    rng = np.random.default_rng(2)
    moved = codes(5_000, rng, holdout=lambda rows: rows.assign(x=rows["x"] + 0.2))
    assert [each.column for each in moved.columns] == ["x"]
    # Two towns: each code is rarer than any level that is tested alone.
    north = codes(1_000, rng, train=lambda rows: rows.assign(code="c" + rows["code"].str[1:3] + "0"),
                  holdout=lambda rows: rows.assign(code="c" + rows["code"].str[1:3] + "5"))  # fmt: skip
    assert [each.column for each in north.columns] == ["code"]


def test_a_holdout_that_was_cleared_of_twins_or_holds_training_rows_is_none() -> None:
    rng = np.random.default_rng(4)
    pool = population(3_000, rng).sample(4_000, replace=True, random_state=0)  # many rows have a twin
    train, holdout = pool[:2_500], pool[2_500:]
    assert not shift(train, holdout).differs
    keys = [side.astype(str).agg("|".join, axis=1) for side in (train, holdout)]
    cleared = shift(train, holdout[~keys[1].isin(keys[0])])
    assert cleared.twins < -0.1
    assert "fewer of the holdout's rows than by chance equal one training row" in cleared.sentence
    alone = population(2_000, rng)
    mixed = shift(alone[:1_000], pd.concat([alone[1_000:], alone[:100]]))
    assert mixed.twins == pytest.approx(100 / 1_100, abs=0.01)
    assert "Not all of the holdout is held out: 8.5% of its rows" in mixed.sentence
    assert mixed.feigned == 0
    repeated = shift(alone[:1_000], pd.concat([alone[1_000:], alone[1_000:1_100]]))
    assert repeated.repeats == pytest.approx(100 / 1_100, abs=0.01)
    assert repeated.differs and "holdout's rows repeat another of its rows" in repeated.sentence
    assert repeated.twins == 0 and repeated.feigned < 0.25
    both = shift(train, pd.concat([holdout[~keys[1].isin(keys[0])], *[alone[1_000:1_100]] * 2]))
    assert both.repeats > 0.05 and both.twins < -0.1
    assert not shift(pd.concat([alone[:1_000], alone[:100]]), alone[1_000:]).repeats
    often = shift(alone[:1_000], pd.concat([alone[1_000:], *[alone[1_000:1_050]] * 3]))
    assert often.repeats == pytest.approx(150 / 1_150, abs=0.01)


@pytest.mark.statistical
@pytest.mark.parametrize("stratified", [False, True])
@pytest.mark.parametrize("size", [5, 1_200])
def test_chances_of_twins_hold_in_strata_of_any_size_and_a_cleared_holdout_is_seen(size: int, stratified: bool) -> None:
    rng = np.random.default_rng(8)
    strata = np.repeat(np.arange(1_200 // size), size)
    p_values, repeats, cleared = [], [], []
    for _ in range(400):
        keys = strata * 10_000 + rng.integers(0, 2 * size, 1_200)
        tickets = rng.random((1_200 // size, size) if stratified else (1, 1_200))
        covered = (tickets.argsort(axis=1).argsort(axis=1) < 0.4 * tickets.shape[1]).ravel()
        sides = counted(keys[~covered], keys[covered], np.r_[strata[~covered], strata[covered]])
        p_values.append(_twins(sides)[1])
        repeats.append(_repeats(sides)[1])
        less = covered & ~np.isin(keys, keys[~covered])
        cleared.append(_twins(counted(keys[~covered], keys[less], np.r_[strata[~covered], strata[less]]))[1])
    for share in (0.01, 0.05):
        for chances in (p_values, repeats):
            assert np.mean(np.array(chances) <= share) <= share + 3.3 * np.sqrt(share * (1 - share) / 400)
    assert np.mean(np.array(cleared) <= LEVEL / 2) > 0.99


def test_what_is_too_small_to_matter_breaks_no_limit_of_a_shipped_policy() -> None:
    rules = [rule for name in shipped() for rule in load_policy(name).rules]
    limits = {rate: min(rule.limit for rule in rules if rule.measure == f"privacy.membership.tpr_at_{rate}")
              for rate in (0.01, 0.001)}  # fmt: skip
    for rate, limit in limits.items():
        # The set of false alarms `rate` on which a V just too small puts the most members, and a policy's limit.
        gains = np.linspace(0, 0.1, 100_001)
        squares = (gains**2 / (2 * rate + gains) + gains**2 / (2 - 2 * rate - gains)) / 2
        assert rate + gains[squares <= LEAST_EFFECT**2].max() <= limit
    least = min(rule.limit for rule in rules if rule.measure == AUC)
    assert least >= 0.5 + LEAST_EFFECT
    assert (least - 0.5) / 2 > LEAST_AUC - 0.5
    assert least == MOST_UNSEEN
    excess = [
        rule.failing for rule in rules if rule.measure.endswith("copies.excess") or "copies.unique" in rule.measure
    ]
    assert min(excess) == LEAST_TWINS


def test_few_rows_do_not_show_a_difference_and_say_how_large_one_may_go_unseen() -> None:
    result = codes(300, np.random.default_rng(6), holdout=lambda rows: rows.assign(x=rows["x"] + 0.2))
    assert not result.differs
    assert result.detectable == pytest.approx(0.64, abs=0.01)
    assert "AUC below 0.64 may go unseen" in result.notes[0]
    assert not result.sentence
    error = (result.high - result.low) / 2 / 1.959964
    areas = result.detectable + error * np.random.default_rng(0).normal(size=4_000)
    seen = (0.5 - areas) / error <= special.ndtri(LEVEL / 2)
    assert (seen & (areas - 1.959964 * error > LEAST_AUC)).mean() == pytest.approx(0.8, abs=0.02)


def test_a_column_that_moved_is_named_and_columns_that_no_longer_hang_together_are_seen() -> None:
    rng = np.random.default_rng(3)
    train, holdout = population(1_500, rng), population(1_000, rng)
    older = shift(train, holdout.assign(age=holdout["age"] + 6))
    assert older.differs
    assert [each.column for each in older.columns] == ["age"]
    assert "'age' (D = 0.1" in older.sentence
    gone = holdout["income"].where(rng.random(1_000) < 0.9)
    (income,) = shift(train, holdout.assign(income=gone)).columns
    assert (income.column, income.statistic) == ("income", "V")
    apart = shift(train, holdout.assign(age=holdout["age"].sample(frac=1, random_state=0).to_numpy()))
    assert apart.differs and not apart.columns and apart.low > 0.5


def estimate(measure: str, low: float, high: float) -> Estimate:
    return Estimate(measure, (low + high) / 2, 1000, GATEABLE[measure], low=low, high=high)


def outcome(case: Candidate, measure: str, limit: float, real: RealFacts | None) -> tuple[str, str]:
    rule = Rule(measure=measure, limit=limit, why="w")
    verdict = judge_candidate(case, Policy(name="p", version=1, audience="a", rules=(rule,)), real=real)
    return verdict.verdict, verdict.findings[0].reason


@pytest.mark.parametrize("measure", sorted(name for name in GATEABLE if name.startswith("privacy.")))
def test_what_rests_on_a_holdout_of_another_population_is_inconclusive_and_what_does_not_stands(measure: str) -> None:
    known = partial(facts, entity="person", order="visit", texts=("note",))  # else no rules on histories and texts
    good, bad = ((0.9, 1.0), (0.0, 0.1)) if GATEABLE[measure] == "higher" else ((0.0, 0.1), (0.9, 1.0))
    good = (0.48, 0.49) if measure == AUC else good  # far below, it would say that the sides were swapped
    for ends, plain in ((good, "PASS"), (bad, "FAIL"), ((0.1, 0.9), "INCONCLUSIVE")):
        case = Candidate("c", (estimate(measure, *ends),))
        assert outcome(case, measure, 0.5, None)[0] == plain
        assert outcome(case, measure, 0.5, known(shift=ALIKE))[0] == plain
        other, why = outcome(case, measure, 0.5, known(shift=OTHER))
        if rests_on_holdout(measure):
            assert other == "INCONCLUSIVE"
            assert "0.900" in why
            for unknown in (known(), known(shift=UNKNOWN)):  # what is not known turns no FAIL around, and passes none
                assert outcome(case, measure, 0.5, unknown)[0] == {"PASS": "INCONCLUSIVE"}.get(plain, plain)
        else:
            assert other == plain
            assert outcome(case, measure, 0.5, known())[0] == plain


def test_copies_fail_beside_any_holdout_unless_twins_explain_them() -> None:
    case = Candidate("c", (estimate("privacy.copies", 0.06, 0.08), estimate(COPIED, 0.055, 0.085)))
    assert finding_of(case, Rule(measure=COPIED, limit=0.05, why="w")).outcome == "FAIL"
    for twins, expected in ((0.0, "FAIL"), (0.005, "FAIL"), (0.02, "INCONCLUSIVE")):
        assert outcome(case, COPIED, 0.05, facts(shift=OTHER, duplicate_share_train=twins))[0] == expected, twins


REPEATED = {"n_train": 100, "n_holdout": 100, "low": 0.4, "high": 0.6}


@pytest.mark.parametrize(("measure", "ends"), [(AUC, (0.96, 0.98)), ("privacy.copies.near", (0.85, 0.95)),
                                               ("privacy.copies.values", (0.45, 0.55))])  # fmt: skip
def test_repeated_rows_of_a_holdout_turn_no_fail_that_they_cannot_explain(
    measure: str, ends: tuple[float, float]
) -> None:
    limit = 0.6 if measure == AUC else 0.1
    case = Candidate("c", (estimate(measure, *ends),))
    for more, expected in (({"repeats": 0.0025}, "FAIL"), ({"repeats": 0.0025, "twins": 0.1}, "FAIL"),
                           ({"repeats": 0.227}, "INCONCLUSIVE"), ({"repeats": 0.0025, "twins": -0.1}, "INCONCLUSIVE"),
                           ({"repeats": 0.6}, "INCONCLUSIVE")):  # fmt: skip
        assert outcome(case, measure, limit, facts(shift=Shift(**REPEATED, **more)))[0] == expected, more
    barely = Candidate("c", (estimate(measure, limit + 0.001, limit + 0.1),))
    assert outcome(barely, measure, limit, facts(shift=Shift(**REPEATED, repeats=0.0025)))[0] == "INCONCLUSIVE"
    few = Candidate("c", (*case.estimates, Estimate("privacy.copies", 0.0, 3, "lower", low=0.0, high=0.1)))
    assert outcome(few, measure, limit, facts(shift=Shift(**REPEATED, repeats=0.0025)))[0] == "INCONCLUSIVE"


def test_a_warning_says_what_shared_rows_entities_and_repeats_mean_and_what_to_do() -> None:
    rows = facts(duplicates_across=30, shift=Shift(**REPEATED, twins=0.1)).warnings
    assert "30 stand in train" in rows[1] and rows[1].endswith("a FAIL stands.") and rows[2] == REMEDY
    people = facts(shift=Shift(**REPEATED, entities=0.1)).warnings
    assert "word for word" not in " ".join(people) and people[2] == "Split by entity."
    repeats = facts(shift=Shift(**REPEATED, repeats=0.1)).warnings
    assert "10.0% of the holdout's rows repeat" in repeats[0] and "one population" not in repeats[0]
    assert "look nearer to train" in repeats[1] and repeats[2] == REMEDY
    assert len(facts(shift=OTHER).warnings) == 1 and not facts(shift=ALIKE).warnings
