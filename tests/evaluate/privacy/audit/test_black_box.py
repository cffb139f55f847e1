"""The black-box audit: it finds rows that are repeated and noise that is missing, and nothing where nothing leaks."""

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.audit_result import AuditError
from evaluate.privacy.audit import black_box as module
from evaluate.privacy.audit.black_box import BlackBox, Trials, best_score, black_box
from evaluate.privacy.audit.neighboring_tables import N_ROWS, Worlds
from synth.dp.budget import Budget
from synth.dp.mechanisms import SystemNoise
from synth.errors import BudgetError
from synth.generators.marginal_generator import Independent
from synth.schema import Schema, build_schema
from tests.evaluate.privacy.memorizing import Lying, Memorizing

COLUMNS: dict[str, Any] = {
    "town": {"kind": "categorical", "categories": ["North", "South", "East"]},
    "ill": {"kind": "boolean"},
}
EVERY_KIND: dict[str, Any] = {
    **COLUMNS,
    "age": {"kind": "integer", "bounds": [18, 90]},
    "income": {"kind": "real", "bounds": [0.0, 200.0], "decimals": 1, "missing": True},
    "weight": {"kind": "weight", "bounds": [0.5, 2.0]},
    "born": {"kind": "date", "bounds": ["1930-01-01", "2005-12-31"]},
    "seen": {"kind": "datetime", "bounds": ["2020-01-01T00:00:00", "2024-01-01T00:00:00"], "precision": "s"},
    "zoned": {"kind": "datetime", "bounds": ["2020-01-01T00:00:00", "2024-01-01T00:00:00"], "timezone": "UTC"},
    "code": {"kind": "categorical", "categories": [7, 9]},
    "one": {"kind": "categorical", "categories": ["only"]},
    "never": {"kind": "categorical", "categories": [], "missing": True},
    "flag": {"kind": "integer", "bounds": [0, 1]},
    "unknown": {"kind": "categorical", "measure": True},
    "wide": {"kind": "real", "measure": True},
}


def schema_of(columns: dict[str, Any] = COLUMNS, **more: Any) -> Schema:
    return build_schema({"status": "declared", "n_units": 1_000, "columns": columns, **more})


def entities(k: int) -> Schema:
    who = {"who": {"kind": "identifier", "bounds": [0, 10**6]}}
    return schema_of({**COLUMNS, **who}, entity="who", max_rows_per_unit=k)


def test_a_generator_that_repeats_its_rows_is_found_and_one_that_claims_otherwise_disproved() -> None:
    worlds = Worlds.stand_in(schema_of())
    found = black_box(Lying(epsilon=0.5), worlds, Trials(60))
    assert found.exceeds
    # Of 1,000 rows drawn of 301, none is the target with probability e^-3.3: about one error in 27 fits with it.
    assert 0.7 < found.bound <= found.strongest
    assert found.delta == pytest.approx(1e-6)
    assert found.n_trials == 40
    assert found.estimate.note.startswith("which disproves the claim of 0.5")
    plain = black_box(Memorizing(), worlds, Trials(60))
    assert plain.epsilon is None
    assert plain.delta == 0.0
    assert not plain.exceeds
    assert plain.bound > 0.7
    assert (plain.estimate.measure, plain.estimate.direction) == ("privacy.black_box.epsilon", "lower")
    assert json.loads(json.dumps(plain.to_dict()))["bound"] == plain.bound


def test_what_promises_nothing_is_the_same_under_a_seed() -> None:
    worlds = Worlds.stand_in(schema_of(), seed=4)
    one, other = (black_box(Memorizing(), worlds, Trials(24, seed=4)) for _ in range(2))
    assert one == other


def test_a_private_generator_as_it_is_shows_nothing() -> None:
    found = black_box(Independent(epsilon=1.0), Worlds.stand_in(schema_of()), Trials(24))
    # So few trials cannot show a claim of 1 to be false.
    assert not found.exceeds
    assert found.bound <= found.strongest


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 3])
def test_noise_that_is_removed_is_found(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SystemNoise, "gaussian", lambda self, values, sigma: values)
    schema = schema_of() if k == 1 else entities(k)
    assert black_box(Independent(epsilon=1.0), Worlds.stand_in(schema), Trials(100)).exceeds


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 3])
def test_ten_of_ten_audits_of_the_code_as_it_is_stay_near_zero(k: int) -> None:
    schema = schema_of() if k == 1 else entities(k)
    bounds = [
        black_box(Independent(epsilon=1.0), Worlds.stand_in(schema, seed=s), Trials(80, seed=s)).bound
        for s in range(10)
    ]
    # Each exceeds the claim with probability 1% at most; that two of ten do has probability 0.4%.
    assert sum(bound > 1.0 for bound in bounds) < 2
    assert np.mean(bounds) < 0.3


def test_a_stand_in_covers_every_kind_of_column_and_its_target_is_alone_in_each() -> None:
    schema = schema_of(EVERY_KIND)
    worlds = Worlds.stand_in(schema)
    assert len(worlds.rows) == N_ROWS
    assert worlds.target.shape == (1, len(schema.learned))
    for name in schema.learned:
        shared = worlds.rows[name].isin(worlds.target[name].tolist())
        assert bool(shared.any()) == (name in {"one", "never"}), name  # one value has no other
    Independent(epsilon=1.0).fit(worlds.table(present=True), worlds.schema)


def test_a_stand_in_has_the_unit_of_the_schema_and_a_target_with_more_rows_than_count() -> None:
    worlds = Worlds.stand_in(entities(4))
    assert worlds.schema.max_rows_per_unit == 4
    assert len(set(worlds.target["who"])) == 1
    assert len(worlds.target) == 12
    assert not worlds.rows["who"].isin(worlds.target["who"]).any()


def test_the_target_of_a_table_is_its_rarest_row_with_all_rows_of_its_unit() -> None:
    schema = entities(2)
    rows = pd.DataFrame({"town": ["North"] * 30 + ["East", "North"], "ill": [False] * 30 + [True, False]})
    rows["who"] = [*range(30), 30, 30]
    worlds = Worlds.around(rows, schema, called="a table")
    assert worlds.target["town"].tolist() == ["East", "North"]
    assert len(worlds.rows) == 30
    assert len(worlds.table(present=True)) == 32
    with pytest.raises(AuditError, match="at least 20 rows"):
        Worlds.around(rows.iloc[:5], schema, called="a table")
    with pytest.raises(AuditError, match="beside the target"):
        Worlds.around(rows.assign(who=1), schema, called="a table")


def test_every_fit_has_the_budget_it_is_given_and_half_of_them_the_target() -> None:
    asked: list[int] = []
    worlds, generator = Worlds.stand_in(schema_of()), Independent(epsilon=1.0)
    schedule = generator.schedule(worlds.schema)
    assert schedule is not None

    def budget(index: int) -> Budget:
        asked.append(index)
        return Budget(schedule)

    found = black_box(generator, worlds, Trials(21), budgets=budget)
    assert asked == list(range(20))
    assert found.n_fits == 20
    present = module._pairs(100, seed=1)
    assert present.reshape(-1, 2).sum(axis=1).tolist() == [1] * 50
    assert 10 < present[::2].sum() < 40


def test_too_few_fits_or_too_little_time_are_refused() -> None:
    with pytest.raises(AuditError, match="needs 20 fits"):
        Trials(19)
    with pytest.raises(AuditError, match="allow more time"):
        black_box(Memorizing(), Worlds.stand_in(schema_of()), Trials(40, time_limit_s=1e-9))
    with pytest.raises(BudgetError, match="declare"):
        black_box(Independent(epsilon=1.0), Worlds.stand_in(schema_of(status="inferred")), Trials(40))


def test_error_rates_bound_epsilon_as_the_paper_says() -> None:
    assert module._least_epsilon(0.1, 0.2, 0.0) == pytest.approx(math.log(0.8 / 0.1))
    assert module._least_epsilon(0.5, 0.5, 0.0) == 0.0


def test_the_best_score_is_chosen_without_the_fits_that_are_judged() -> None:
    rng = np.random.default_rng(0)
    present = np.tile([True, False], 60)
    found = rng.standard_normal((120, 3))
    found[:40, 1] -= 3 * present[:40]  # tells the first ones apart, by low values
    found[40:, 2] += 9 * present[40:]  # would tell only those apart that are judged
    scores, feature = best_score(found, present, 40)
    assert feature == 1 or feature is None
    if feature == 1:
        np.testing.assert_array_equal(scores, -found[:, 1])
    blinded = np.where(np.arange(120)[:, None] < 40, found, 0.0)
    np.testing.assert_array_equal(scores[:40], best_score(blinded, present, 40)[0][:40])


def test_counts_that_only_together_tell_are_joined() -> None:
    rng = np.random.default_rng(0)
    present = np.tile([True, False], 100)
    found = rng.standard_normal((200, 8)) + 0.7 * present[:, None]
    scores, feature = best_score(found, present, 100)
    assert feature is None
    assert scores[100:][present[100:]].mean() > scores[100:][~present[100:]].mean()


@pytest.mark.slow
def test_sound_scores_are_rarely_bounded_away_from_zero() -> None:
    worlds = Worlds.stand_in(schema_of())
    rng = np.random.default_rng(0)

    def bound() -> BlackBox:
        present = np.tile([True, False], 60)
        return module._concluded(rng.standard_normal((120, 8)), present, (1.0, 1e-6), 0.95, worlds)

    # A bound above 0 of noise alone has probability 5% at most; that nine of 60 have one, 0.4%.
    assert sum(bound().bound > 0 for _ in range(60)) < 9
