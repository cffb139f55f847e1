"""What generators of noisy marginals keep of related columns, and what decides on their rounds, codes and weights."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest

from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent
from synth.dp.mechanisms import InjectedNoise
from synth.dp.noise_journal import Journal
from synth.errors import JobError
from synth.generators import latent_class
from synth.generators.aim import Aim
from synth.generators.latent_class import FINER, LatentClass
from synth.generators.marginal_generator import Mst
from synth.generators.registry import generator as build
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


def injected(generator: Any, frame: pd.DataFrame, schema: Schema) -> Any:
    """A large synthetic table at a noise that is the same on every run."""
    schedule = generator.schedule(schema)
    model = generator.fit(frame, schema, budget=Budget(schedule, InjectedNoise(np.random.default_rng(1))))
    return model.sample(20_000, seed=1)


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


def test_equal_specifications_are_one_key_in_whichever_order_their_weights_are() -> None:
    first, second = Aim(workload={"c0": 2.0, "c1": 3.0}), Aim(workload={"c1": 3.0, "c0": 2.0})
    assert len({first, second, Aim(workload={"c0": 2.0}), Aim()}) == 3


@pytest.mark.parametrize("name", ["c00", "key", "sum", "gone"])
@pytest.mark.parametrize("kind", [Aim, LatentClass])
def test_a_weight_of_what_is_not_modeled_is_refused_before_anything_is_drawn(kind: Any, name: str) -> None:
    number = {"kind": "integer", "bounds": [0, 9]}
    columns = {
        "c0": number, "c1": number, "sum": {"kind": "integer", "bounds": [0, 18]},
        "key": {"kind": "identifier", "bounds": [0, 10**6]}, "gone": {**number, "drop": True},
    }  # fmt: skip
    formula = {"kind": "formula", "column": "sum", "expression": "c0 + c1"}
    schema = build_schema({"status": "declared", "n_units": 1000, "columns": columns, "constraints": [formula]})
    with pytest.raises(JobError, match="did you mean 'c0'" if name == "c00" else "take it out of the workload"):
        kind(epsilon=1.0, workload={name: 2.0}).schedule(schema)


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
            result = generator.fit(frame, schema, budget=Budget(schedule, journal=journal)).sample(100, seed=1)
        assert part.read_bytes().startswith(left)
        assert len(part.read_bytes().splitlines()) == len(lines) + n_left % 2  # a lost draw is begun once more
        if n_left == len(lines):
            pd.testing.assert_frame_equal(result, expected)


def _of_one_cause(n: int) -> pd.DataFrame:
    """Six numbers that hang together: each is one number and noise of its own; rank correlation .9."""
    rng = np.random.default_rng(0)
    cause = rng.uniform(0, 1000, n)
    return pd.DataFrame({f"x{i}": np.clip(cause + rng.normal(0, 100, n), 0, 1000).round(2) for i in range(6)})


@pytest.mark.statistical
def test_coarse_codes_keep_relations_that_noise_hides_between_fine_ones() -> None:
    table = _of_one_cause(4000)
    column = {"kind": "real", "bounds": [0, 1000], "decimals": 2}
    schema = build_schema({"status": "declared", "n_units": 4000, "columns": dict.fromkeys(table, column)})
    kept = {}
    for n_coarse in (0, 8):
        drawn = injected(Aim(epsilon=1.0, delta=1e-6, coarse_codes=n_coarse), table, schema)
        kept[n_coarse] = drawn.corr(method="spearman").to_numpy()[np.triu_indices(6, 1)].mean()
    assert kept[8] > 0.5
    assert kept[0] < 0.2


def of_entities(schema: Schema, k: int) -> Schema:
    content = schema.model_dump(mode="json", exclude_unset=True)
    who = {"who": {"kind": "identifier", "bounds": [0, 10**6]}}
    return build_schema({**content, "columns": {**who, **content["columns"]}, "entity": "who", "max_rows_per_unit": k})


PLANS = [
    (LatentClass(), schema_of(1)),
    (LatentClass(), schema_of(2)),
    (LatentClass(rounds=0), schema_of(2)),
    (LatentClass(), schema_of(5)),
    (LatentClass(rounds=0), schema_of(5, target="c1")),
    (LatentClass(rounds=7, focus=0.5), schema_of(5, target="c1", sensitive=["c3"])),
    (LatentClass(workload={"c0": 1000.0, "c1": 0.001}), schema_of(6, target="c0")),
    (LatentClass(columns_share=0.5, pairs_share=0.2, choices_share=0.7), schema_of(4, target="c2")),
    (LatentClass(), of_entities(schema_of(4, target="c2"), 3)),
]


@pytest.mark.parametrize(("generator", "schema"), PLANS)
@pytest.mark.parametrize("rho", [1e-4, 0.3, 50.0])
def test_the_events_of_a_plan_cost_the_whole_and_have_names_of_their_own(
    generator: LatentClass, schema: Schema, rho: float
) -> None:
    events = generator.own_events(schema)(rho)
    assert sum(event.rho or 0.0 for event in events) == pytest.approx(rho)
    assert len({event.what for event in events}) == len(events)
    for event in events:
        assert not isinstance(event, GaussianEvent) or event.sensitivity == schema.max_rows_per_unit


def test_weights_of_pairs_are_powers_of_two_nearest_to_the_products_the_least_of_them_1() -> None:
    generator = LatentClass(focus=4.0, workload={"c1": 2.9, "c2": 0.7})
    weights = generator._pair_weights(schema_of(4, target="c0"))
    assert weights == {
        ("c0", "c1"): 32.0, ("c0", "c2"): 8.0, ("c0", "c3"): 8.0, ("c1", "c2"): 4.0, ("c1", "c3"): 8.0,
        ("c2", "c3"): 1.0,
    }  # fmt: skip


def test_more_budget_chooses_more_and_tells_more_codes_apart_within_limits() -> None:
    schema, epsilons = schema_of(5, target="c0"), (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
    rounds = [LatentClass(epsilon=epsilon).n_rounds(schema) for epsilon in epsilons]
    groups = [LatentClass(epsilon=epsilon).n_groups(schema)["c1"] for epsilon in epsilons]
    assert rounds == sorted(rounds)
    assert (rounds[0], rounds[-1]) == (5, 4 * 5)
    assert groups == sorted(groups)
    assert (groups[0], groups[-1]) == (4, 24)
    assert LatentClass().n_groups(schema) == {"c0": FINER * 23, **dict.fromkeys(["c1", "c2", "c3", "c4"], 23)}
    assert LatentClass(coarse_codes=2).n_groups(schema)["c1"] == 2


def related(n_rows: int = 4000) -> tuple[pd.DataFrame, Schema]:
    """Three numbers and a target, all of which go up and down with one that nobody sees."""
    rng = np.random.default_rng(8)
    hidden = rng.normal(0, 1, n_rows)
    parts = {
        name: sign * 0.9 * hidden + 0.44 * rng.normal(0, 1, n_rows)
        for name, sign in zip("abc", (1, -1, 1), strict=True)
    }
    frame = pd.DataFrame({**parts, "target": 0.8 * hidden + 0.6 * rng.normal(0, 1, n_rows)}).clip(-4, 4)
    columns = {name: {"kind": "real", "bounds": [-4, 4]} for name in frame}
    return frame, build_schema({"status": "declared", "n_units": n_rows, "target": "target", "columns": columns})


def test_related_numbers_stay_related() -> None:
    """All correlations, where a tree has three of the six pairs, and single columns none."""
    frame, schema = related()
    real = frame.corr().to_numpy()
    assert np.abs(real).min() > 0.6
    errors = {}
    for generator in (LatentClass(epsilon=3.0, n_classes=200), Mst(epsilon=3.0), build("independent", epsilon=3.0)):
        errors[generator.name] = np.abs(injected(generator, frame, schema).corr().to_numpy() - real).max()
    assert errors["independent"] > 0.6
    assert errors["latent_class"] < 0.1
    assert errors["latent_class"] < errors["mst"] / 2


@pytest.mark.parametrize(
    ("pairs", "triples"),
    [
        (Aim(epsilon=3.0, degree=2), Aim(epsilon=3.0)),
        (LatentClass(epsilon=3.0, n_classes=50, rounds=0), LatentClass(epsilon=3.0, n_classes=50, rounds=4)),
    ],
    ids=["aim", "latent_class"],
)
def test_what_only_three_columns_show_is_found(pairs: Any, triples: Any) -> None:
    agreeing = []
    for generator in (pairs, triples):
        table = injected(generator, parity(8000), schema_of(4, 8000))
        x, y, z = (table[name] == "y" for name in ("c0", "c1", "c2"))
        agreeing.append(float(((x ^ y) == z).mean()))
    assert agreeing[0] < 0.65
    assert agreeing[1] > 0.9


def constrained(kind: str) -> tuple[pd.DataFrame, Schema]:
    rng = np.random.default_rng(2)
    if kind == "inequality":
        low = rng.integers(0, 30, 3000)
        frame = pd.DataFrame({"low": low, "high": np.minimum(low + rng.integers(0, 8, 3000), 39)})
        columns: Any = {name: {"kind": "integer", "bounds": [0, 39]} for name in frame}
        constraint: Any = {"kind": "inequality", "low": "low", "high": "high"}
    else:
        cities = np.array([f"t{index:02}" for index in range(12)], dtype=object)
        drawn = rng.integers(0, 12, 3000)
        frame = pd.DataFrame(
            {
                "city": cities[drawn],
                "land": np.array(list("abcd"), dtype=object)[(drawn // 3 + rng.integers(0, 2, 3000)) % 4],
            }
        )
        columns = {
            "city": {"kind": "categorical", "categories": cities.tolist()},
            "land": {"kind": "categorical", "categories": list("abcd")},
        }
        listed = [[city, "abcda"[index // 3 + more]] for index, city in enumerate(cities) for more in (0, 1)]
        constraint = {"kind": "fixed_combinations", "columns": ["city", "land"], "combinations": listed}
    frame = frame.assign(other=rng.random(3000))
    columns = {**columns, "other": {"kind": "real", "bounds": [0.0, 1.0]}}
    content = {"status": "declared", "n_units": 3000, "columns": columns, "constraints": [constraint]}
    return frame, build_schema(content)


@pytest.mark.parametrize("kind", ["inequality", "fixed_combinations"])
def test_few_rows_break_a_constraint_whose_zeros_are_measured(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frame, schema = constrained(kind)
    shares = []
    for _ in range(2):
        table = injected(LatentClass(epsilon=1.0, n_classes=100), frame, schema)
        shares.append(table.attrs["rejected"] / (len(table) + table.attrs["rejected"]))
        monkeypatch.setattr(latent_class, "structural_zeros", lambda *_: ())
    # The second fit knows of no zeros: what they are good for shows.
    assert shares[0] < 0.07
    assert shares[1] > 1.5 * shares[0]
