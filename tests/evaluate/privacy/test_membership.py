from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import special
from sklearn.metrics import roc_auc_score

from evaluate.privacy import membership
from evaluate.privacy.attribute_inference import widths_of
from evaluate.privacy.coincidence import ScoreTail
from evaluate.privacy.experiment import detectable_auc, detectable_rate
from evaluate.privacy.membership import Scores, area, true_positive_rate
from evaluate.privacy.membership_attacks import ATTACKS, scored
from evaluate.privacy.shadow_models import match_counts
from evaluate.tables import Tables
from synth.schema import Schema, build_schema

AUC, STRICT, LOOSE = (f"privacy.membership.{name}" for name in ("auc", "tpr_at_0.001", "tpr_at_0.01"))


def by_name(measurement):
    return {each.measure: each for each in (*measurement.estimates, *measurement.failures)}


@pytest.mark.statistical
def test_independent_samples_raise_no_alarm_at_any_size_ratio(population, draw):
    for seed, sizes in enumerate([(2400, 600, 600, 1000), (600, 1200, 1200, 1000)]):
        result = by_name(membership.measure(draw(population, sizes, seed=seed + 7)))
        assert result[AUC].low <= 0.51
        assert result[LOOSE].low <= 0.015


def test_twins_in_train_and_control_do_not_look_like_members(draw, make):
    result = by_name(membership.measure(draw(make["many duplicates"], (1000, 500, 500, 1000), seed=1, leak=1.0)))
    assert result[AUC].low <= 0.5 <= result[AUC].high
    assert result[LOOSE].value == 0.0


def test_the_auc_of_one_part_is_that_of_scikit_learn(draw, make):
    tables = draw(make["mixed"], (500, 300, 300, 400), seed=2, leak=0.2)
    for attack, (members, controls) in scored(tables).items():
        labels = np.r_[np.ones(len(members)), np.zeros(len(controls))]
        value = area([Scores.of(members, controls)])[0]
        assert value == pytest.approx(roc_auc_score(labels, np.r_[members, controls])), attack


@pytest.mark.statistical
@pytest.mark.parametrize("n_parts", [1, 2])
@pytest.mark.parametrize(("n_controls", "rate"), [(1000, 0.001), (1000, 0.01), (5000, 0.001)])
def test_the_interval_of_a_useless_attack_covers_the_false_positive_rate(n_controls, rate, n_parts):
    rng, missed = np.random.default_rng(0), []
    for _ in range(400):
        parts = [Scores.of(rng.random(4000 // n_parts), rng.random(n_controls // n_parts)) for _ in range(n_parts)]
        _, low, high = true_positive_rate(parts, rate)
        missed.append((low > rate, high < rate))
    assert (np.mean(missed, axis=0) <= 0.025 + 2 * (0.025 * 0.975 / 400) ** 0.5).all()


def test_every_attack_finds_a_copy_and_the_report_is_told_of_each(draw, make):
    figure = membership.measure(draw(make["mixed"], (1000, 500, 500, 1000), seed=1, leak=1.0)).figures["membership"]
    result = {each["name"]: each["auc"][0] for each in figure["attacks"]}
    assert list(result) == list(ATTACKS)
    assert result.pop("classifier") > 0.65 and result.pop("focal") > 0.8
    assert min(result.values()) > 0.95
    assert set(figure["chosen"]) <= set(ATTACKS)


def test_what_an_attack_could_have_detected_is_found_in_eighty_of_a_hundred():
    rng, n, shift = np.random.default_rng(0), 1000, detectable_auc(1000, 1000)
    moved = 2**0.5 * special.ndtri(shift)
    result = [area([Scores.of(rng.normal(moved, size=n), rng.normal(size=n))])[1] > 0.5 for _ in range(400)]
    assert np.mean(result) == pytest.approx(0.8, abs=4 * 0.02)
    share = detectable_rate(0.01, 11, 2000, 1000)
    caught = []
    for _ in range(400):
        above = rng.binomial(2000, share)
        members = np.r_[np.full(above, 2.0), np.full(2000 - above, -1.0)]
        caught.append(true_positive_rate([Scores.of(members, rng.random(1000))], 0.01)[1] > 0.01)
    assert np.mean(caught) == pytest.approx(0.8, abs=4 * 0.02 + 0.05)


def test_a_row_that_holds_a_few_values_of_a_person_gives_them_away(draw, make):
    """All other columns are drawn anew, so that the row lies no nearer to the person than any other."""
    tables = draw(make["all numeric"], (1200, 800, 1000, 1200), seed=4)
    rows, copied = tables.synthetic.copy(), list(tables.train.columns)[:2]
    rows[copied] = tables.train[copied]
    changed = replace(tables, synthetic=rows)
    members, controls = scored(changed)["fragments"]
    assert area([Scores.of(members, controls)])[1] > 0.8
    assert by_name(membership.measure(changed))[AUC].low > 0.75


def of_entities(tables, sizes):
    """The same rows, each real table dealt to entities of these sizes in turn, all different."""
    schema = build_schema({
        **tables.schema.model_dump(), "entity": "who",
        "columns": {**tables.schema.model_dump()["columns"], "who": {"kind": "identifier", "bounds": [0, 10**9]}},
    })  # fmt: skip
    frames = {}
    for side, (name, part) in enumerate([*sizes.items(), ("synthetic", [1])]):
        frame = getattr(tables, name)
        owners = np.repeat(np.arange(len(frame)), np.resize(part, len(frame)))[: len(frame)] + side * 10**6
        frames[name] = frame.assign(who=pd.array(owners, dtype="Int64"))
    return replace(tables, **frames, schema=schema, declared=schema)


@pytest.mark.parametrize("cut", [False, True])
def test_how_many_rows_an_entity_has_does_not_give_it_away(draw, make, cut):
    """Entities of 1 to 6 rows; also where train was cut to two rows of each, and the holdout was not."""
    sizes = {"train": [1, 2, 2, 2] if cut else [1, 2, 3, 6], "fresh": [1, 2, 3, 6], "control": [1, 2, 3, 6]}
    aucs = []
    for seed in range(2):
        result = by_name(membership.measure(of_entities(draw(make["mixed"], (900, 300, 900, 600), seed), sizes)))
        aucs.append(result[AUC].value)
        assert result[AUC].low <= 0.51
    assert abs(np.mean(aucs) - 0.5) < 0.04


def _chained(train: pd.DataFrame, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Rows whose every three neighboring columns are those of some training row, and no more of it."""
    rows = train.to_numpy()
    built = rows[rng.integers(len(rows), size=n)].copy()
    for j in range(1, rows.shape[1]):
        keys = [pd.Series([tuple(row) for row in part[:, max(0, j - 2) : j]]) for part in (rows, built)]
        donors = keys[0].groupby(keys[0]).indices
        built[:, j] = [rows[rng.choice(donors[key]), j] for key in keys[1]]
    return pd.DataFrame(built, columns=train.columns)


def test_cells_of_a_few_columns_that_are_those_of_train_are_found_by_no_other_attack():
    rng = np.random.default_rng(0)
    names, levels = list("abcdef"), list("01234567")
    train, holdout = (pd.DataFrame(rng.choice(levels, (n, 6)), columns=names, dtype=object) for n in (1000, 4000))
    schema = build_schema(
        {"status": "declared", "columns": {x: {"kind": "categorical", "categories": levels} for x in names}}
    )
    tables = Tables.prepare(train, holdout, _chained(train, 4000, rng), schema)
    areas = {name: area([Scores.of(*both)]) for name, both in scored(tables).items()}
    value, low, _ = areas.pop("focal")
    assert low > 0.6 and value > max(other for other, *_ in areas.values()) + 0.04
    assert by_name(membership.measure(tables))[AUC].low > 0.6


def matching(schema: Schema, widths: dict[str, float], table: pd.DataFrame, target: pd.Series) -> list[int]:
    """Rows of a table that match one record, by column and one by one."""
    result = []
    for name in schema.learned:
        value, column = target[name], schema.columns[name]
        if pd.isna(value):
            result.append(int(table[name].isna().sum()))
        elif name not in widths:
            result.append(int((table[name].astype(object) == value).sum()))
        else:
            at, center = column.positions(table[name]), column.positions(pd.Series([value], dtype=table[name].dtype))
            result.append(int((np.abs(at - center) <= widths[name]).sum()))
    return result


def test_counts_are_those_of_rows_one_by_one_for_every_make_of_table(population: Any, draw: Callable[..., Any]) -> None:
    tables = draw(population, (50, 50, 50, 60), seed=3)
    schema, widths = tables.schema, widths_of(tables.fresh, tables.schema)
    targets = tables.train.iloc[:15]
    one_by_one = [matching(schema, widths, tables.synthetic, targets.iloc[i]) for i in range(len(targets))]
    np.testing.assert_array_equal(match_counts(tables.synthetic, targets, schema, widths), np.array(one_by_one))


def test_the_tail_allows_for_being_estimated() -> None:
    """Scores whose tail is exponential, or lighter: at most one alarm in a thousand tables, by chance."""
    alarms = 0
    for seed in range(400):
        scores = np.random.default_rng(seed).exponential(1.5, 3_000)
        alarms += int((2_000 * ScoreTail.of(scores[:1_000]).chance(scores[1_000:])).min() <= 1e-3)
    assert alarms <= 4
