"""Generators of noisy marginals: rounds of `aim`, selection, workloads and histograms."""

import itertools
import json
import math
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import synth
from synth.domain.counts import MARK, CoarseCounts, Coarsening, CodedTable, fine
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, SelectionEvent
from synth.dp.mechanisms import InjectedNoise
from synth.dp.noise_journal import Journal
from synth.errors import JobError
from synth.generators.aim import GROWTH, Aim
from synth.generators.fitting.selection import MOST_CANDIDATES, Search, Workload
from synth.generators.forecast import outlook
from synth.generators.models.marginal_model import MarginalModel
from synth.generators.mst import Mst
from synth.generators.registry import generator as build
from synth.generators.registry import load_model
from synth.marginals import Clique, Factor, MarkovRandomField, Measurement, estimate
from synth.schema import Schema, build_schema


def schema_of(n_columns: int, n_units: int = 20_000, **more: Any) -> Schema:
    columns = {f"c{index}": {"kind": "categorical", "categories": ["x", "y", "z"]} for index in range(n_columns)}
    return build_schema({"status": "declared", "n_units": n_units, "columns": columns, **more})


def parity(n_rows: int = 20_000) -> pd.DataFrame:
    """Three columns of which any two are independent and all three are not, and one that copies the first."""
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 2, (2, n_rows))
    names = np.array(["x", "y", "z"], dtype=object)
    return pd.DataFrame({"c0": names[a], "c1": names[b], "c2": names[a ^ b], "c3": names[a]})


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("rounds", [None, 1, 2, 7])
def test_the_whole_budget_is_planned_and_no_more(epsilon: float, rounds: int | None) -> None:
    generator, schema = Aim(epsilon=epsilon, rounds=rounds), schema_of(5)
    schedule = generator.schedule(schema)
    assert schedule is not None
    assert epsilon * 0.999 <= schedule.epsilon <= epsilon
    measured = [event for event in schedule.events if isinstance(event, GaussianEvent)]
    chosen = [event for event in schedule.events if isinstance(event, SelectionEvent)]
    assert sum(event.count for event in chosen) == generator.n_rounds(schema)
    assert sum(event.count for event in measured) == generator.n_rounds(schema) + 5
    assert schedule.rho is not None
    assert measured[0].rho == pytest.approx(0.15 * schedule.rho)
    assert sum(event.rho for event in chosen) == pytest.approx(0.1 * 0.85 * schedule.rho)


def test_a_round_of_a_later_stage_costs_more() -> None:
    schedule = Aim(epsilon=1.0, rounds=10).schedule(schema_of(5))
    assert schedule is not None
    costs = [e.rho / e.count for e in schedule.events if isinstance(e, GaussianEvent)][1:]
    assert [later / earlier for earlier, later in itertools.pairwise(costs)] == pytest.approx([GROWTH] * 2)


def test_more_budget_measures_more_and_never_beyond_what_the_columns_can_use() -> None:
    schema = schema_of(5)
    rounds = [Aim(epsilon=epsilon).n_rounds(schema) for epsilon in (0.01, 0.1, 1.0, 10.0, 100.0)]
    assert rounds == sorted(rounds)
    assert rounds[0] < rounds[-1] == 4 * 5 == Aim().n_rounds(schema)


def test_it_finds_what_only_three_columns_show() -> None:
    table = Aim(epsilon=3.0).fit(parity(), schema_of(4)).sample(20_000, seed=1)
    a, b, c = (table[name] == "y" for name in ("c0", "c1", "c2"))
    assert ((a ^ b) == c).mean() > 0.97
    assert (table["c0"] == table["c3"]).mean() > 0.97
    pairs_only = Aim(epsilon=3.0, degree=2).fit(parity(), schema_of(4)).sample(20_000, seed=1)
    a, b, c = (pairs_only[name] == "y" for name in ("c0", "c1", "c2"))
    assert ((a ^ b) == c).mean() < 0.6


@pytest.mark.parametrize("n_columns", [1, 2, 3])
def test_few_columns_are_no_special_case(n_columns: int) -> None:
    schema = schema_of(n_columns)
    frame = parity(500)[list(schema.columns)]
    assert Aim(epsilon=1.0).fit(frame, schema).sample(50, seed=0).shape == (50, n_columns)


def test_columns_in_focus_are_measured_first() -> None:
    rng = np.random.default_rng(2)
    names = np.array(["x", "y", "z"], dtype=object)
    parts = [rng.integers(0, 2, 20_000) for _ in range(2)]
    # c1 tells c0 a little better than c3 tells c2, which is the target.
    noisy = [
        np.where(rng.random(20_000) < share, part, 1 - part) for part, share in zip(parts, (0.95, 0.9), strict=True)
    ]
    frame = pd.DataFrame(dict(zip("0123", [parts[0], noisy[0], parts[1], noisy[1]], strict=True)))
    frame = frame.rename(columns=lambda name: f"c{name}").apply(lambda column: names[column])
    schema = schema_of(4, target="c2")

    def first(focus: float) -> set[str]:
        chosen = Aim(degree=2, rounds=1, focus=focus)
        model = chosen.fit(frame, schema)
        return {
            name for factor in model.distribution.potentials if len(factor.attributes) > 1 for name in factor.attributes
        }

    assert first(0.0) == {"c0", "c1"}
    assert first(3.0) == {"c2", "c3"}


def chain(n_rows: int = 4000) -> tuple[pd.DataFrame, Schema]:
    """Five numbers, each told by the one before, and `last`, told by the first a little less well."""
    rng = np.random.default_rng(8)
    made = [rng.normal(0, 1, n_rows)]
    for _ in range(4):
        made.append(0.9 * made[-1] + 0.44 * rng.normal(0, 1, n_rows))
    last = 0.6 * made[0] + 0.8 * rng.normal(0, 1, n_rows)
    names = [*(f"c{index}" for index in range(5)), "last"]
    frame = pd.DataFrame({name: np.clip(part, -4, 4) for name, part in zip(names, [*made, last], strict=True)})
    columns = {name: {"kind": "real", "bounds": [-4, 4]} for name in names}
    return frame, build_schema({"status": "declared", "n_units": n_rows, "columns": columns})


def fitted(frame: pd.DataFrame, schema: Schema, workload: dict[str, float]) -> MarginalModel:
    generator = Aim(epsilon=1.0, rounds=8, workload=workload)
    schedule = generator.schedule(schema)
    assert schedule is not None
    return generator.fit(frame, schema, budget=Budget(schedule, InjectedNoise(np.random.default_rng(1))))


@pytest.mark.statistical
def test_a_heavy_column_is_chosen_more_often_and_its_pairs_come_closer() -> None:
    frame, schema = chain()

    def pairs_of_last(workload: dict[str, float]) -> tuple[int, float]:
        model = fitted(frame, schema, workload)
        chosen = [factor.attributes for factor in model.distribution.potentials]
        held = sum("last" in map(fine, clique) for clique in chosen if len(set(map(fine, clique))) > 1)
        made = model.sample(20_000, seed=1)
        return held, float((made.corr()["last"] - frame.corr()["last"]).abs().sum())

    (n_alike, error_alike), (n_heavy, error_heavy) = pairs_of_last({}), pairs_of_last({"last": 50.0})
    assert n_heavy > n_alike
    assert error_heavy < error_alike


def test_a_column_of_little_weight_is_measured_last() -> None:
    frame, schema = parity(), schema_of(4)

    def first(workload: dict[str, float]) -> set[str]:
        model = Aim(degree=2, rounds=1, workload=workload).fit_rows(frame.assign(c2=frame["c1"]), schema)
        return {
            name for factor in model.distribution.potentials if len(factor.attributes) > 1 for name in factor.attributes
        }

    assert first({"c0": 0.1, "c3": 0.1}) == {"c1", "c2"}
    assert first({"c1": 0.1, "c2": 0.1}) == {"c0", "c3"}


def test_weights_of_columns_are_multiplied_with_those_of_their_roles() -> None:
    schema = schema_of(4, target="c1", sensitive=["c2"])
    weights = Aim(focus=0.5, workload={"c1": 4.0, "c3": 2.0}).marginal_weights(schema).weights
    assert weights == {"c0": 1.0, "c1": 6.0, "c2": 1.5, "c3": 2.0}


def test_equal_specifications_are_one_key_in_whichever_order_their_weights_are() -> None:
    one, other = Aim(workload={"c0": 2.0, "c1": 3.0}), Aim(workload={"c1": 3.0, "c0": 2.0})
    assert len({one, other, Aim(workload={"c0": 2.0}), Aim()}) == 3


def test_weights_change_neither_the_schedule_nor_the_outlook() -> None:
    schema = schema_of(4)
    plain, heavy = Aim(epsilon=1.0), Aim(epsilon=1.0, workload={"c0": 1000.0})
    assert heavy.schedule(schema) == plain.schedule(schema)
    assert outlook(heavy, schema) == outlook(plain, schema)


@pytest.mark.parametrize("weight", [0, -1.0, 1000.1, math.inf, math.nan, True, "3", None, {"c1": 1.0}])
def test_a_weight_is_a_positive_number_of_at_most_1000(weight: Any) -> None:
    with pytest.raises(JobError, match=r"generator='aim': workload\.c0="):
        build("aim", workload={"c0": weight})


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("c00", "not in the schema; did you mean 'c0'"),
        ("c0, c1", "not in the schema; known are"),
        ("c0" + MARK, "not in the schema"),
        ("key", "take it out of the workload"),
        ("sum", "take it out of the workload"),
        ("gone", "take it out of the workload"),
    ],
)
def test_a_weight_of_what_is_not_modeled_is_refused_before_anything_is_drawn(name: str, reason: str) -> None:
    number = {"kind": "integer", "bounds": [0, 9]}
    columns = {
        "c0": number, "c1": number, "sum": {"kind": "integer", "bounds": [0, 18]},
        "key": {"kind": "identifier", "bounds": [0, 10**6]}, "gone": {**number, "drop": True},
    }  # fmt: skip
    formula = {"kind": "formula", "column": "sum", "expression": "c0 + c1"}
    schema = build_schema({"status": "declared", "n_units": 1000, "columns": columns, "constraints": [formula]})
    for generator in (Aim(workload={name: 2.0}), Aim(epsilon=1.0, workload={name: 2.0})):
        with pytest.raises(JobError, match=reason):
            generator.check(schema)
        with pytest.raises(JobError, match=reason):
            generator.schedule(schema)


def test_a_saved_model_knows_the_weights_it_was_fitted_with(tmp_path: Path) -> None:
    model = Aim(epsilon=1.0, rounds=1, workload={"c0": 3.0}).fit(parity(500), schema_of(4))
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert isinstance(loaded, MarginalModel)
    assert loaded.parameters is not None
    assert build("aim", **loaded.parameters) == Aim(epsilon=1.0, rounds=1, workload={"c0": 3.0})


@pytest.mark.parametrize(
    ("workload", "valid"),
    [
        ({}, True), ({"c0": 3}, True), ({"c0": 0.5, "c1": 1000}, True), ({"c0": 0}, False), ({"c0": 1001}, False),
        ({"c0": "3"}, False), ({"c0": True}, False), ([3.0], False), (3.0, False),
    ],
)  # fmt: skip
def test_weights_and_the_json_schema_of_the_generator_agree(workload: Any, valid: bool) -> None:
    described = jsonschema.Draft202012Validator(Aim.model_json_schema())
    assert described.is_valid({"workload": workload}) == valid
    if valid:
        assert json.loads(json.dumps(build("aim", workload=workload).parameters()))["workload"] == workload
    else:
        with pytest.raises(JobError):
            build("aim", workload=workload)


@pytest.mark.statistical
def test_the_model_stays_within_its_limit_and_the_limit_grows_with_the_budget_used() -> None:
    rng = np.random.default_rng(3)
    domain = {f"c{index}": 10 for index in range(6)}
    codes = rng.integers(0, 10, (2000, 6))
    search = Search(CodedTable(domain, codes), Workload(dict.fromkeys(domain, 1.0), 3), (), 1000, 1500.0, 1000)
    singles = [Measurement((name,), codes_of.astype(float), 1.0) for name, codes_of in columns_of(search)]
    model = estimate(domain, singles)
    half, whole = search.candidates(model, 0.5), search.candidates(model, 1.0)
    assert {len(clique) for clique in half} == {1, 2}
    assert {len(clique) for clique in whole} == {1, 2, 3}
    for clique in whole:
        assert (
            estimate(domain, [*singles, Measurement(clique, search.counts(clique).astype(float), 1.0)]).tree.n_cells
            <= 1500
        )


def columns_of(search: Search) -> list[tuple[str, np.ndarray]]:
    return [(name, search.counts((name,))) for name in search.table.domain]


def test_a_wide_table_offers_triples_only_where_two_columns_are_joined() -> None:
    domain = {f"c{index}": 2 for index in range(40)}
    codes = np.random.default_rng(4).integers(0, 2, (100, 40))
    search = Search(CodedTable(domain, codes), Workload(dict.fromkeys(domain, 1.0), 3), (), 1000, 1e6, 100)
    singles = [Measurement((name,), counted.astype(float), 1.0) for name, counted in columns_of(search)]
    before = search.candidates(estimate(domain, singles), 1.0)
    assert len(before) == 40 + 40 * 39 // 2 < MOST_CANDIDATES
    pair = Measurement(("c3", "c7"), search.counts(("c3", "c7")).astype(float), 1.0)
    after = search.candidates(estimate(domain, [*singles, pair]), 1.0)
    assert set(after) - set(before) == {
        tuple(sorted({"c3", "c7", name}, key=list(domain).index)) for name in domain if name not in ("c3", "c7")
    }


def test_what_may_be_measured_next_does_not_depend_on_the_rows() -> None:
    domain = {f"c{index}": 5 for index in range(5)}
    rng = np.random.default_rng(6)
    tables = [rng.integers(0, 5, (500, 5)), np.zeros((1, 5), dtype=np.int64)]
    released = estimate(domain, [Measurement(("c0", "c1"), rng.normal(20, 5, (5, 5)), 5.0)])
    workload = Workload(dict.fromkeys(domain, 1.0), 3)
    offered = [
        Search(CodedTable(domain, codes), workload, (), 100, 400.0, 100).candidates(released, 0.9) for codes in tables
    ]
    assert offered[0] == offered[1]


@pytest.mark.statistical
def test_a_fit_that_was_cut_short_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    n_draws = 4 + 2 * 6  # columns; a choice and a marginal in each round
    generator, schema, frame = Aim(epsilon=1.0, rounds=6), schema_of(4), parity(2000)
    schedule = generator.schedule(schema)
    assert schedule is not None
    whole = tmp_path / "whole"
    with Journal(whole) as journal:
        expected = generator.fit(frame, schema, budget=Budget(schedule, journal=journal)).sample(100, seed=1)
    lines = whole.read_bytes().splitlines(keepends=True)
    assert len(lines) == 2 * n_draws  # each is begun, then there
    for n_left in (0, 10, 11, len(lines) - 2, len(lines)):
        part, left = tmp_path / f"part{n_left}", b"".join(lines[:n_left])
        part.write_bytes(left)
        with Journal(part) as journal:
            assert journal.n_persisted == n_left // 2
            assert len(journal.lost) == n_left % 2
            found = generator.fit(frame, schema, budget=Budget(schedule, journal=journal)).sample(100, seed=1)
        assert part.read_bytes().startswith(left)
        assert len(part.read_bytes().splitlines()) == len(lines) + n_left % 2  # a lost draw is begun once more
        if n_left == len(lines):
            pd.testing.assert_frame_equal(found, expected)


@pytest.mark.parametrize("generator", [Mst(epsilon=1.0), Aim(epsilon=1.0)], ids=["mst", "aim"])
def test_fixed_combinations_leave_next_to_nothing_to_reject(generator: Mst | Aim) -> None:
    rng = np.random.default_rng(7)
    level, noise = rng.integers(0, 12, (2, 5000))
    content = {
        "status": "declared",
        "n_units": 5000,
        "columns": {
            "level": {"kind": "categorical", "categories": [f"level {index}" for index in range(12)]},
            "number": {"kind": "integer", "bounds": [1, 12]},
            "other": {"kind": "integer", "bounds": [0, 11]},
        },
        "constraints": [
            {
                "kind": "fixed_combinations",
                "columns": ["level", "number"],
                "combinations": [[f"level {index}", index + 1] for index in range(12)],
            }
        ],
    }
    schema = build_schema(content)
    frame = pd.DataFrame({"level": [f"level {index}" for index in level], "number": level + 1, "other": noise})
    made = generator.fit(frame, schema).sample(5000, seed=0)
    assert (made["level"].str.removeprefix("level ").astype(int) + 1 == made["number"]).all()
    assert made.attrs["rejected"] < 10
    bare = schema.model_copy(update={"constraints": ()})
    unheld = generator.fit(frame, bare).sample(5000, seed=0)
    assert (unheld["level"].str.removeprefix("level ").astype(int) + 1 != unheld["number"]).sum() > 10  # mst: 87, +- 22


def test_injected_noise_gives_the_same_model_twice() -> None:
    generator, schema = Aim(epsilon=1.0, rounds=4), schema_of(4)
    schedule = generator.schedule(schema)
    assert schedule is not None
    tables = [
        generator.fit(parity(500), schema, budget=Budget(schedule, InjectedNoise(np.random.default_rng(1)))).sample(
            50, seed=1
        )
        for _ in range(2)
    ]
    pd.testing.assert_frame_equal(*tables)


def _of_one_cause(n: int) -> pd.DataFrame:
    """Six numbers that hang together: each is one number and noise of its own; rank correlation .9."""
    rng = np.random.default_rng(0)
    cause = rng.uniform(0, 1000, n)
    return pd.DataFrame({f"x{i}": np.clip(cause + rng.normal(0, 100, n), 0, 1000).round(2) for i in range(6)})


@pytest.mark.statistical
@pytest.mark.parametrize("seed", range(2))
def test_coarse_codes_keep_relations_that_noise_hides_between_fine_ones(seed: int) -> None:
    table = _of_one_cause(4000)
    column = {"kind": "real", "bounds": [0, 1000], "decimals": 2}
    schema = build_schema({"status": "declared", "n_units": 4000, "columns": dict.fromkeys(table, column)})
    kept = {}
    for n_coarse in (0, 8):
        generator = Aim(epsilon=1.0, delta=1e-6, coarse_codes=n_coarse)
        schedule = generator.schedule(schema)
        assert schedule is not None
        budget = Budget(schedule, InjectedNoise(np.random.default_rng(seed)))
        drawn = generator.fit(table, schema, seed=seed, budget=budget).sample(4000, seed=0)
        related = drawn.corr(method="spearman").to_numpy()
        kept[n_coarse] = related[np.triu_indices(6, 1)].mean()
    assert kept[8] > 0.5
    assert kept[0] < 0.2


def test_many_attributes_are_refined_after_their_coarse_marginals() -> None:
    names = [f"x{index}" for index in range(40)]
    domain = {**dict.fromkeys(names, 26), **{name + MARK: 10 for name in names}}
    table = CodedTable(domain, np.zeros((5, 80), dtype=np.int64))
    search = Search(table, Workload(dict.fromkeys(names, 1.0), 2), (), 20_000, 500_000, 100)
    start = search.estimate([], None)
    pairs = [clique for clique in search.candidates(start, 1.0) if len(clique) == 2]
    assert all(name.endswith(MARK) for pair in pairs for name in pair)
    assert len(pairs) == 40 * 39 / 2
    coarse = ("x0" + MARK, "x1" + MARK)
    known = search.estimate([Measurement(coarse, np.ones((10, 10)), 1.0)], start)
    finer = {clique for clique in search.candidates(known, 1.0) if len(clique) == 2} - set(pairs)
    assert finer == {("x0", "x1"), ("x1", "x0" + MARK), ("x0", "x1" + MARK)}


N_COLUMNS, SIZE, N_ROWS, SIGMA = 6, 24, 1_000_000, 40.0
EQUAL_SIZES = {f"c{index}": SIZE for index in range(N_COLUMNS)}
CLIQUES: list[Clique] = [c for degree in (1, 2, 3) for c in itertools.combinations(EQUAL_SIZES, degree)]


def scores_of(codes: np.ndarray, n_draws: int) -> dict[Clique, float]:
    """Of a model of even, independent columns."""
    table = CodedTable(EQUAL_SIZES, codes)
    model = MarkovRandomField(EQUAL_SIZES, [Factor.uniform(EQUAL_SIZES, (name,)) for name in EQUAL_SIZES], N_ROWS)
    search = Search(table, Workload(dict.fromkeys(EQUAL_SIZES, 1.0), 3), (), 20_000, 1e6, n_draws)
    found = search.scores(model, CLIQUES, SIGMA, np.random.default_rng(1))
    return dict(zip(CLIQUES, found.tolist(), strict=True))


def test_in_a_large_table_of_independent_columns_nothing_is_worth_measuring_but_for_chance() -> None:
    codes = np.random.default_rng(0).integers(0, SIZE, (N_ROWS, N_COLUMNS))
    for clique, score in scores_of(codes, 100_000).items():
        # The table itself is a draw from even columns, which leaves an error that the score rightly sees.
        by_chance = np.sqrt(2 / np.pi) * (np.sqrt(N_ROWS * SIZE ** len(clique)) - SIGMA * SIZE ** len(clique))
        drawing = np.sqrt(2 / np.pi) * np.sqrt(N_ROWS / 100_000 * N_ROWS * SIZE ** len(clique))
        assert score < by_chance + 0.25 * drawing, clique


def test_in_a_large_table_the_pair_that_hangs_together_comes_first() -> None:
    codes = np.random.default_rng(0).integers(0, SIZE, (N_ROWS, N_COLUMNS))
    copied = np.random.default_rng(1).random(N_ROWS) < 0.05
    codes[copied, 1] = codes[copied, 0]
    scores = scores_of(codes, 100_000)
    assert max(scores, key=scores.__getitem__) == ("c0", "c1")


def test_what_the_model_knows_at_once_is_compared_exactly() -> None:
    codes = np.random.default_rng(0).integers(0, SIZE, (N_ROWS, N_COLUMNS))
    few, many = (scores_of(codes, n_draws) for n_draws in (1_000, 50_000))
    assert all(few[name,] == many[name,] for name in EQUAL_SIZES)
    assert few["c0", "c1"] != many["c0", "c1"]


@pytest.mark.parametrize("weight", [0.001, 1.0, 1000.0])
def test_one_row_moves_no_score_by_more_than_one_whatever_the_weights(weight: float) -> None:
    rng = np.random.default_rng(4)
    codes = rng.integers(0, SIZE, (500, N_COLUMNS))
    groups = {"c0": np.arange(SIZE) // 6}
    workload = Workload({**dict.fromkeys(EQUAL_SIZES, 1.0), "c0": weight, "c1": 0.3}, 3)
    found = []
    for rows in (codes, codes[:-1]):
        table = CoarseCounts(CodedTable(EQUAL_SIZES, rows), Coarsening(groups))
        model = MarkovRandomField(table.domain, [Factor.uniform(table.domain, (name,)) for name in table.domain], 500)
        search = Search(table, workload, (), 20_000, 1e6, 1000)
        candidates = search.candidates(model, 1.0)
        found.append(search.scores(model, candidates, SIGMA, np.random.default_rng(1)))
    # The heaviest candidate is moved by the whole row: no weight costs the choice a part of its scale.
    assert np.abs(found[0] - found[1]).max() == pytest.approx(1.0)


def test_a_coarse_attribute_weighs_as_its_column_does() -> None:
    codes = np.random.default_rng(4).integers(0, SIZE, (500, N_COLUMNS))
    table = CoarseCounts(CodedTable(EQUAL_SIZES, codes), Coarsening({"c0": np.arange(SIZE) // 6}))
    model = MarkovRandomField(table.domain, [Factor.uniform(table.domain, (name,)) for name in table.domain], 500)
    pairs = [("c1", "c0" + MARK), ("c1", "c2")]
    plain, heavy = (
        Search(table, Workload({**dict.fromkeys(EQUAL_SIZES, 1.0), "c0": weight}, 2), (), 20_000, 1e6, 1000).scores(
            model, pairs, 0.0, np.random.default_rng(1)
        )
        for weight in (1.0, 3.0)
    )
    assert heavy / plain == pytest.approx([1.0, 0.5])


UNEQUAL_SIZES = {"a": 2, "b": 3, "c": 50, "d": 2}
EVEN = dict.fromkeys(UNEQUAL_SIZES, 1.0)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_equal_weights_order_cliques_as_the_papers_sum_over_the_workload_does(degree: int) -> None:
    workload = Workload(EVEN, degree)
    for clique in workload.cliques(UNEQUAL_SIZES, math.inf):
        paper = sum(len({*clique} & {*marginal}) for marginal in combinations(UNEQUAL_SIZES, degree))
        assert workload.weight(clique) * paper_heaviest(degree) == pytest.approx(paper)


def paper_heaviest(degree: int) -> int:
    heaviest = tuple(UNEQUAL_SIZES)[:degree]
    return sum(len({*heaviest} & {*marginal}) for marginal in combinations(UNEQUAL_SIZES, degree))


def test_no_clique_of_the_closure_weighs_more_than_one() -> None:
    workload = Workload({"a": 1.0, "b": 5.0, "c": 101.0, "d": 2.0}, degree=3)
    weights = [workload.weight(clique) for clique in workload.cliques(UNEQUAL_SIZES, math.inf)]
    assert max(weights) == 1.0
    assert min(weights) > 0


@given(st.lists(st.floats(1e-6, 1000.0), min_size=4, max_size=4), st.integers(1, 4))
def test_no_weights_take_a_clique_above_one(weights: list[float], degree: int) -> None:
    workload = Workload(dict(zip(UNEQUAL_SIZES, weights, strict=True)), degree)
    found = [workload.weight(clique) for order in range(1, degree + 1) for clique in permutations(UNEQUAL_SIZES, order)]
    assert max(found) == 1.0


def test_cliques_with_too_many_cells_are_left_out_but_never_single_attributes() -> None:
    found = set(Workload(EVEN, degree=3).cliques(UNEQUAL_SIZES, max_cells=12))
    assert found == {("a",), ("b",), ("c",), ("d",), ("a", "b"), ("a", "d"), ("b", "d"), ("a", "b", "d")}


@pytest.mark.parametrize(("weights", "degree"), [({"a": 0.0}, 2), ({"a": math.nan}, 2), ({"a": 1.0}, 0)])
def test_what_is_no_workload_is_refused(weights: dict[str, float], degree: int) -> None:
    with pytest.raises(ValueError, match="finite weights above 0"):
        Workload(weights, degree)


LEVELS = np.repeat(np.arange(8), [4000, 3000, 2000, 500, 40, 30, 20, 10])


def schema(**roles: object) -> Schema:
    columns = {
        "level": {"kind": "categorical", "categories": list(range(8)), "ordered": True},
        "town": {"kind": "categorical", "categories": ["a", "b"]},
    }
    return build_schema({"status": "declared", "n_units": len(LEVELS), "columns": columns, **roles})


def labels(**roles: object) -> list[str]:
    table = pd.DataFrame({"level": LEVELS, "town": np.where(LEVELS > 3, "a", "b")})
    model: Any = synth.fit(table, schema(**roles), "independent", epsilon=20.0, delta=1e-6, n_bins=10)
    found: list[str] = model.discretizer.labels("level")
    return found


def test_rare_levels_are_merged_with_their_neighbors() -> None:
    assert labels() == ["0", "1", "2", "3 to 7", "other", "missing"]


@pytest.mark.parametrize("roles", [{"target": "level"}, {"sensitive": ["level"]}])
def test_levels_that_matter_most_are_told_apart_where_noise_allows(roles: dict[str, object]) -> None:
    assert labels(**roles)[:6] == ["0", "1", "2", "3", "4", "5"]


def test_values_are_drawn_within_merged_levels_by_their_share() -> None:
    table = pd.DataFrame({"level": LEVELS, "town": np.where(LEVELS > 3, "a", "b")})
    drawn = synth.fit(table, schema(), "independent", epsilon=20.0, delta=1e-6, n_bins=10).sample(9600, seed=0)
    counts = drawn["level"].value_counts().reindex(range(8), fill_value=0).to_numpy(dtype=float)
    assert counts == pytest.approx(np.bincount(LEVELS), abs=60)
