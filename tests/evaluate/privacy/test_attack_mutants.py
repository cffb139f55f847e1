"""Faults of attacks, each planted in turn, each beside the check that must catch it: a leak that has to show, or honest
rows that must accuse nobody.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.engine import measure_candidate
from evaluate.privacy import coincidence, copied_parts, experiment, linkability, membership
from evaluate.result import Estimate
from evaluate.tables import Real
from synth.infer import infer_schema
from tests.planting import plant

N = 700
COPIES, PARTS, MEMBERSHIP = "privacy.copies", "privacy.copied_parts", "privacy.membership"
LINKED, INFERRED, RECONSTRUCTED = "privacy.linkability", "privacy.inference", "privacy.reconstruction"
PEOPLE, HELD_OUT, AUC, TPR = (
    "privacy.copies.people", "privacy.copies.holdout", "privacy.membership.auc", "privacy.membership.tpr_at_0.01",
)  # fmt: skip


def rows(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng([seed, 9])
    hidden = rng.normal(size=n)
    built = {f"x{i}": np.round(hidden * (i % 2) + rng.normal(size=n), 3) for i in range(4)}
    built |= {f"c{i}": np.array(list("abcdefgh"))[rng.integers(0, 8, n)] for i in range(4)}
    return pd.DataFrame(built)


@cache
def real() -> Real:
    train, holdout = rows(N, 1), rows(N, 2)
    schema = infer_schema(pd.concat([train, holdout, rows(N, 3)], ignore_index=True))
    content = {**schema.model_dump(), "quasi_identifiers": ["x0", "x1", "c0", "c1"]}
    return Real.prepare(train, holdout, type(schema).model_validate(content))


def found(offered: pd.DataFrame, *measures: str) -> dict[str, Estimate]:
    candidate = measure_candidate("c", real().beside(offered), measures=list(measures))
    return {each.measure: each for each in candidate.estimates if not each.subject}


def low(offered: pd.DataFrame, name: str, measure: str) -> float:
    return found(offered, measure)[name].interval[0]


def leaked(share: float, side: int = 1, noise: float = 0.0) -> pd.DataFrame:
    """Fresh rows, a share of which stands for rows of a side, with a little noise in their numbers."""
    fresh, case = rows(N, 3), rows(N, side).head(round(share * N))
    moved = case.assign(**{name: (case[name] + noise).round(4) for name in case if name.startswith("x")})
    return pd.concat([fresh.iloc[len(case) :], moved if noise else case], ignore_index=True)


# Checks


def whole_rows_are_found_on_their_side_alone() -> None:
    copied, held_out = found(leaked(0.1), COPIES), found(leaked(0.1, side=2), COPIES)
    assert copied[PEOPLE].interval[0] > 0.02 and copied[HELD_OUT].interval[0] == 0
    assert held_out[HELD_OUT].interval[0] > 0.02 and held_out[PEOPLE].interval[0] == 0
    assert copied["privacy.copies.unique.excess"].interval[0] > 0.02


def fresh_rows_copy_nobody() -> None:
    fresh = found(rows(N, 3), COPIES, PARTS)
    for name in (PEOPLE, HELD_OUT, "privacy.copies.values", "privacy.copies.parts", "privacy.copies.near"):
        assert fresh[name].interval[0] == 0, name
        assert fresh[name].interval[1] < 0.1, name
    assert fresh["privacy.copies.near"].interval[1] < 0.05


def values_parts_and_near_rows_are_found() -> None:
    train, fresh = rows(N, 1), rows(N, 3)
    dealt = fresh.assign(x2=train["x2"].sample(frac=1.0, random_state=1).to_numpy())
    assert low(dealt, "privacy.copies.values", PARTS) > 0.02
    left, right = ([name for name in fresh if name[1] in half] for half in ("01", "23"))
    joined = pd.concat([train[left], train[right].sample(frac=1.0, random_state=1).reset_index(drop=True)], axis=1)
    assert low(joined[fresh.columns], "privacy.copies.parts", PARTS) > 0.02
    assert low(leaked(1.0, noise=0.0013), "privacy.copies.near", PARTS) > 0.02


def weights_on_one_side_are_found() -> None:
    many, few = np.r_[np.ones(20), np.zeros(80)], np.r_[np.full(8, 5.0), np.full(40, 0.1), np.zeros(52)]
    assert 5 < coincidence.fewest_copied(many, np.zeros(100), 1e-3) <= 20
    assert coincidence.fewest_copied(many, many, 1e-3) == 0
    assert 0 < coincidence.fewest_copied(few, np.minimum(few, 0.1), 0.02) <= 8  # the eight who weigh much


def members_are_told_from_outsiders() -> None:
    near = found(leaked(1.0, noise=0.0013), MEMBERSHIP)
    assert near[AUC].interval[0] > 0.8 and near[TPR].interval[0] > 0.2
    few = found(leaked(0.1), MEMBERSHIP)
    assert few[TPR].interval[0] > 0.02
    part = {"blind": (np.zeros(90), np.zeros(90)), "keen": (np.ones(90), np.zeros(90))}
    assert [half.attack for half in membership.parts_for(membership.AREA, part)] == ["keen", "keen"]


def an_attack_on_fresh_rows_is_a_coin() -> None:
    fresh = found(rows(N, 3), MEMBERSHIP)
    assert fresh[AUC].interval[0] < 0.5 < fresh[AUC].interval[1] < 0.6
    # With 350 outsiders, nobody knows where one in a hundred of them lies.
    assert fresh[TPR].interval[0] <= 0.01 and fresh[TPR].value < 0.05 and fresh[TPR].interval[1] > 0.025
    # Three columns of few values: all scores are ties, which help nobody.
    score = membership.Scores.of(np.zeros(50), np.zeros(50))
    assert score.n_above(1) == 0 and membership.area([score])[0] == 0.5


def only_members_lose(name: str) -> None:
    near, fresh = (found(offered, name)[name] for offered in (leaked(1.0, noise=0.0013), rows(N, 3)))
    assert near.interval[0] > 0.05
    assert fresh.interval[0] <= 0 < fresh.interval[1]


def links_of_members_alone_are_found() -> None:
    only_members_lose(LINKED)


def secrets_of_members_alone_are_found() -> None:
    only_members_lose(INFERRED)
    columns = [experiment.Experiment(hits, np.zeros(99)).estimate("", note="") for hits in (np.ones(99), np.zeros(99))]
    assert experiment.standing_out(columns) == 0


# Mutants

MUTANTS: list[tuple[str, Any, str, str, str, Callable[[], None]]] = [
    ("members and outsiders are exchanged", coincidence.Alone, "coincidences", "self.in_train, ~self.in_train",
     "~self.in_train, self.in_train", whole_rows_are_found_on_their_side_alone),
    ("nothing is ever hit", coincidence.Alone, "hit_by", "np.asarray(", "0 > 1 + 0 * np.asarray(",
     values_parts_and_near_rows_are_found),
    ("everything is hit", coincidence.Alone, "hit_by", "== self.content", "<= self.content.max()",
     fresh_rows_copy_nobody),
    ("a near row is a row beside", copied_parts, "_n_near", "< nearness *", "> nearness *", fresh_rows_copy_nobody),
    ("every row is near", copied_parts, "_n_near", "< nearness *", "< 1e9 *", fresh_rows_copy_nobody),
    ("weights of members and outsiders are exchanged", coincidence, "fewest_copied", "(ranked[n:], others, odds)",
     "(others, ranked[n:], odds)", weights_on_one_side_are_found),
    ("members are met at any odds", coincidence, "fewest_copied", "FITTED * len(train)", "9 * len(train)",
     weights_on_one_side_are_found),
    ("whoever weighs little was copied", coincidence, "fewest_copied", "[::-1]", "", weights_on_one_side_are_found),
    ("no part is drawn", copied_parts, "_content", "in part", "in part[:0]", values_parts_and_near_rows_are_found),
    ("members and outsiders are exchanged in an attack", membership.Scores, "of", "np.sort(members), np.sort(controls)",
     "np.sort(controls), np.sort(members)", members_are_told_from_outsiders),
    ("the attacker is taken for the other side", membership, "area", "float(wins.mean())", "(1 - float(wins.mean()))",
     members_are_told_from_outsiders),
    ("ties help the attacker", membership.Scores, "n_above", '"right"', '"left"', an_attack_on_fresh_rows_is_a_coin),
    ("more may be accused than is said", membership.Scores, "n_allowed", "rate * len(self.controls)",
     "10 * rate * len(self.controls)", an_attack_on_fresh_rows_is_a_coin),
    ("thresholds are taken to be known", membership, "true_positive_rate", "max(high, above / m)", "above / m",
     an_attack_on_fresh_rows_is_a_coin),
    ("the lower end is the number", membership, "true_positive_rate", "min(low, above / m)", "above / m",
     an_attack_on_fresh_rows_is_a_coin),
    ("the weakest attack is taken", membership, "_best", "max(merits", "min(merits", members_are_told_from_outsiders),
    ("members and outsiders are exchanged where parts are linked", linkability, "measure",
     "linked[:n_members], linked[n_members:]", "linked[n_members:], linked[:n_members]",
     links_of_members_alone_are_found),
    ("success on outsiders is no matter", experiment.Experiment, "rates", "(self.attack, self.control)",
     "(self.attack, 0 * self.control)", secrets_of_members_alone_are_found),
    ("the advantage is turned round", experiment.Experiment, "advantage", "*self.rates(n_comparisons)",
     "*self.rates(n_comparisons)[::-1]", secrets_of_members_alone_are_found),
    ("the least of all columns is taken", experiment, "standing_out", "max(range", "min(range",
     secrets_of_members_alone_are_found),
    ("both parts lead anywhere", linkability, "measure", "rows[0] == rows[1]", "rows[0] >= 0",
     links_of_members_alone_are_found),
]  # fmt: skip
CHECKS = list(dict.fromkeys(check for *_, check in MUTANTS))


def test_records_of_members_alone_are_reconstructed() -> None:
    only_members_lose(RECONSTRUCTED)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_attacks_as_they_are_pass(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize(
    ("owner", "name", "old", "new", "check"), [mutant[1:] for mutant in MUTANTS], ids=[mutant[0] for mutant in MUTANTS]
)
def test_a_fault_of_an_attack_is_caught(owner, name, old, new, check, monkeypatch):
    plant(monkeypatch, owner, name, old, new)
    with pytest.raises(AssertionError) as caught:
        check()
    # Caught by the check, that is: a mutant that only breaks the program proves nothing about it.
    assert str(caught.traceback[-1].path) == __file__
