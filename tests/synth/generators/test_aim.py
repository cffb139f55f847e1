import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.domain.counting import CodedTable
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, SelectionEvent
from synth.dp.journal import Journal
from synth.dp.mechanisms import InjectedNoise
from synth.generators.aim import GROWTH, Aim
from synth.generators.mst import Mst
from synth.generators.search import MOST_CANDIDATES, Search
from synth.marginals import Measurement, Workload, estimate
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
