"""Constraints that are proposed: those that were planted, each with its reason, and nothing that chance shows."""

import tomllib
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import synth
from synth.declare import declare_schema
from synth.infer import infer_schema
from synth.schema import Schema, build_schema
from synth.schema_file import to_toml


def sales(n_stores: int = 30, n_days: int = 100, seed: int = 0) -> pd.DataFrame:
    """Sales by store and day, with rules of every kind among their columns."""
    rng, n = np.random.default_rng(seed), n_stores * n_days
    store, day = np.divmod(np.arange(n), n_days)
    rows = pd.DataFrame({
        "store": [f"s{i}" for i in store],
        "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(day, unit="D"),
        "price": rng.gamma(3, 10, n).round(2),
        "qty": rng.integers(1, 20, n),
        "ship cost": rng.gamma(1, 3, n).round(2),
    })  # fmt: skip
    rows["net"] = (rows["price"] * rows["qty"]).round(2)
    rows["total"] = (rows["net"] + rows["ship cost"]).round(2)
    rows["share"] = rows["ship cost"] / rows["total"]
    rows["sent"] = rows["day"] + pd.to_timedelta(rng.integers(0, 30, n), unit="D")
    rows.loc[rng.random(n) < 0.1, "sent"] = pd.NaT
    rows["region"] = [f"r{i % 6}" for i in store]
    rows["zone"] = [["n", "s"][i % 6 // 3] for i in store]
    rows["zone_code"] = [i % 6 // 3 + 7 for i in store]
    return rows


@pytest.fixture(scope="module")
def proposed() -> Schema:
    return infer_schema(sales())


def rules(schema: Schema) -> list[str]:
    return [str(constraint) for constraint in schema.constraints]


def test_every_planted_rule_is_proposed_and_nothing_else(proposed: Schema) -> None:
    assert sorted(rules(proposed)) == sorted([
        "'net' is price * qty",
        "'total' is `ship cost` + net",
        "'share' is `ship cost` / total",
        "'day' is at most 'sent'",
        "'zone' and 'zone_code' take one of 2 listed combinations",
        "'store' and 'region' take one of 30 listed combinations",
        "'region' and 'zone' take one of 6 listed combinations",
        "'store' and 'day' never repeat together",
    ])  # fmt: skip


def test_every_proposal_says_why_and_the_file_carries_it_until_somebody_declares_it(proposed: Schema) -> None:
    assert all(constraint.proposed for constraint in proposed.constraints)
    assert build_schema(tomllib.loads(to_toml(proposed))) == proposed
    declared = declare_schema(proposed)
    assert rules(declared) == rules(proposed)
    assert "proposed" not in to_toml(declared)


def test_reasons_hold_neither_cells_nor_counts_of_rows(proposed: Schema) -> None:
    for constraint in proposed.constraints:
        assert "3000" not in str(constraint.proposed).replace(",", "")
        assert "s1" not in str(constraint.proposed)


def test_the_order_of_rows_changes_nothing(proposed: Schema) -> None:
    mixed = sales().sample(frac=1, random_state=1).reset_index(drop=True)
    assert infer_schema(mixed).constraints == proposed.constraints


def test_one_row_that_breaks_a_rule_takes_it_away() -> None:
    rows = sales()
    rows.loc[5, "total"] += 0.05
    rows.loc[7, "zone_code"] = 15 - rows.loc[7, "zone_code"]
    rows.loc[8, "sent"] = rows.loc[8, "day"] - pd.Timedelta(days=1)
    rows.loc[9, ["day", "store"]] = rows.loc[10, ["day", "store"]]
    rows.loc[9, "sent"] = pd.NaT
    left = rules(infer_schema(rows))
    assert not any("zone_code" in text or "'sent'" in text or "never" in text for text in left)
    assert not any(text.startswith(("'total' is `", "'share' is ")) for text in left)
    assert "'net' is at most 'total'" in left
    assert "'net' is price * qty" in left


@pytest.mark.parametrize(
    "rows",
    [
        {"small": lambda r, n: r.integers(0, 10, n), "large": lambda r, n: r.integers(100, 900, n)},
        {"low": lambda r, n: r.integers(0, 100, n), "high": lambda r, n: np.full(n, 99)},
        {"mostly": lambda r, n: (np.arange(n) < 2).astype(int) * 3, "other": lambda r, n: r.integers(0, 50, n)},
        {"zero": lambda r, n: np.zeros(n, dtype=int), "one": lambda r, n: r.integers(5, 50, n)},
        {"rare": lambda r, n: np.where(np.arange(n) < 3, "x", "y"), "city": lambda r, n: r.choice(list("abc"), n)},
    ],
    ids=["bounds say it", "constant", "nearly constant", "zero", "rare level"],
)
def test_what_bounds_or_constants_imply_is_no_rule(rows: dict[str, Callable[[Any, int], Any]]) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: make(rng, 500) for name, make in rows.items()})
    assert rules(infer_schema(frame)) == []


Columns = dict[str, Any]


def scaled(rng: np.random.Generator, n: int = 2_000) -> np.ndarray:
    """Sizes of firms, over three orders of magnitude."""
    sizes: np.ndarray = np.exp(rng.normal(6, 1.5, n))
    return sizes


def test_a_part_is_at_most_its_whole() -> None:
    rng = np.random.default_rng(0)
    whole = scaled(rng).round() + 10
    rows = pd.DataFrame({"recovered": (whole * rng.random(len(whole))).astype(int), "claimed": whole.astype(int)})
    assert rules(infer_schema(rows)) == ["'recovered' is at most 'claimed'"]


def apart(rng: np.random.Generator) -> Columns:
    sizes = scaled(rng)
    return {"employees": (sizes / 8).round() + 1, "orders": (sizes * rng.uniform(0.15, 0.6, len(sizes))).round() + 2}


def codes(rng: np.random.Generator) -> Columns:
    kind = rng.integers(0, 4, 2_000)
    return {"tenure": np.minimum(kind, rng.integers(0, 4, 2_000)), "housing": kind}


@pytest.mark.parametrize("make", [apart, codes])
def test_numbers_that_lie_apart_or_are_of_two_units_keep_no_order(
    make: Callable[[np.random.Generator], Columns],
) -> None:
    rows = pd.DataFrame(make(np.random.default_rng(0)))
    low, high = rows.columns
    assert (rows[low] <= rows[high]).all()
    assert (np.sort(rows[low]) > np.random.default_rng(1).permutation(rows[high])).mean() > 0.1
    assert rules(infer_schema(rows)) == []


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_a_time_and_a_day_that_is_a_midnight_are_compared_by_day(zone: str | None) -> None:
    rng = np.random.default_rng(0)
    booked = pd.Timestamp("2024-01-01", tz=zone) + pd.to_timedelta(rng.integers(0, 100 * 86_400, 900), unit="s")
    on = booked.floor("D") + pd.to_timedelta(rng.geometric(0.3, 900) - 1, unit="D")
    assert (booked > on).any()
    schema = infer_schema(pd.DataFrame({"booked": booked, "on": on}))
    assert rules(schema) == ["'booked' is at most 'on'" + ("" if zone is None else " by day")]
    assert schema.columns["on"].kind == ("date" if zone is None else "datetime")
    texts = pd.DataFrame({name: moments.strftime("%Y-%m-%dT%H:%M:%SZ") for name, moments in (("b", booked), ("o", on))})
    # Beside a day a time counts as its day.
    assert rules(infer_schema(texts)) == ["'b' is at most 'o'"]


def test_what_follows_from_a_formula_or_over_columns_that_are_never_missing_is_left_out() -> None:
    rng = np.random.default_rng(0)
    net, tax = rng.integers(1, 500, 900), rng.integers(1, 300, 900)
    rows = pd.DataFrame({"paid": (net * rng.random(900)).astype(int), "net": net, "tax": tax, "gross": net + tax})
    assert rules(infer_schema(rows)) == ["'gross' is net + tax", "'paid' is at most 'net'"]
    days = np.datetime64("2024-01-01") + np.cumsum([rng.integers(0, n, 900) for n in (900, 60, 60)], axis=0)
    times = pd.DataFrame(dict(zip(("ordered", "packed", "sent"), days, strict=True)))
    assert "'ordered' is at most 'sent'" not in rules(infer_schema(times))
    times.loc[rng.random(900) < 0.5, "packed"] = pd.NaT
    # Where the middle is missing, nothing but the inequality itself holds both ends together.
    assert "'ordered' is at most 'sent'" in rules(infer_schema(times))


def test_combinations_that_are_merely_rare_are_no_rule() -> None:
    """Families whose members are a row each: eight are rare, and with three children rarer, but not unlawful."""
    rng, n = np.random.default_rng(0), 1_500
    children = rng.choice(6, n, p=[0.45, 0.2, 0.18, 0.1, 0.05, 0.02])
    family = children + rng.choice([1, 2, 3, 4], n, p=[0.27, 0.7, 0.025, 0.005])
    rows = pd.DataFrame({"children": [f"c{n}" for n in children], "family": [f"f{n}" for n in family]})
    rows = rows.loc[rows.index.repeat(3)]
    assert len(rows.drop_duplicates()) <= rows["children"].nunique() * rows["family"].nunique() / 2
    assert rules(infer_schema(rows)) == []


def test_combinations_of_which_half_never_occur_though_chance_would_show_them_are_a_rule() -> None:
    rng, n = np.random.default_rng(0), 3_000
    plan = rng.choice(["basic", "plus", "pro", "team"], n)
    allowed = {"basic": ["email"], "plus": ["email", "chat"], "pro": ["chat", "phone"], "team": ["phone", "desk"]}
    rows = pd.DataFrame({"plan": plan, "help": [rng.choice(allowed[name]) for name in plan]})
    assert rules(infer_schema(rows)) == ["'plan' and 'help' take one of 7 listed combinations"]


def test_what_goes_without_another_thing_is_listed_beside_that_alone() -> None:
    rng, n = np.random.default_rng(0), 2_000
    net = rng.choice(["dsl", "fiber", "none"], n)
    extras = {name: np.where(net == "none", "no net", rng.choice(["yes", "no"], n)) for name in ("tv", "sport", "safe")}
    listed = [f"'net' and {name!r} take one of 5 listed combinations" for name in extras]
    assert rules(infer_schema(pd.DataFrame({"net": net, **extras}))) == listed


def test_rows_of_one_entity_are_one_piece_of_evidence() -> None:
    rng = np.random.default_rng(0)
    towns, sexes, stays = (rng.permutation(np.repeat(np.arange(n), 120 // n)) for n in (60, 2, 60))
    people = pd.DataFrame({"town": [f"t{i}" for i in towns], "sex": sexes == 1, "job": [f"j{i}" for i in stays]})
    people.loc[people["town"].duplicated(), "sex"] = people.groupby("town")["sex"].transform("first")
    rows = people.loc[people.index.repeat(20)].reset_index(drop=True)
    assert "'town' and 'sex' take one of 60 listed combinations" in rules(infer_schema(rows))
    named = rows.assign(who=[f"P-{i // 20:04d}" for i in range(len(rows))])
    schema = infer_schema(named, entity="who")
    assert rules(schema) == []


def test_a_key_within_entities_is_proposed_once() -> None:
    rng = np.random.default_rng(0)
    days = [rng.choice(10, 4, replace=False) for _ in range(200)]
    rows = pd.DataFrame({"who": np.repeat(np.arange(200), 4), "visit": np.concatenate(days)})
    rows["later"] = rows["visit"] // 1 + 100
    rows["group"] = rows["who"] % 7
    schema = infer_schema(rows.assign(who=[f"P-{i:04d}" for i in rows["who"]]), entity="who")
    assert [text for text in rules(schema) if "never" in text] == ["'who' and 'visit' never repeat together"]


def test_no_key_is_proposed_of_values_that_nearly_every_entity_holds_so_that_a_table_can_be_drawn() -> None:
    """The first visit of every patient: where one more is drawn than there are patients, none is left to hold it."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 4, 300)
    who = np.repeat([f"P-{i:04d}" for i in range(300)], sizes)
    rows = pd.DataFrame({"who": who, "visit": np.concatenate([np.arange(size) for size in sizes])})
    schema = infer_schema(rows.assign(lab=rng.choice(["a", "b"], len(rows))), entity="who")
    assert not schema.constraints


def test_combinations_list_values_that_others_are_missing_with() -> None:
    """Tests without a flag are tests, too: a list of those with one would let no other be drawn."""
    rng, n = np.random.default_rng(0), 2_000
    units, flags = {"K": "mmol/l", "CREA": "mg/dl", "CRP": "mg/l", "HB": "g/dl"}, {"CRP": "H", "HB": "L"}
    test = rng.choice([*units], n)
    flag = [flags.get(each) if rng.random() < 0.5 else None for each in test]
    table = pd.DataFrame({"test": test, "unit": [units[each] for each in test], "flag": flag})
    listed = {name for rule in infer_schema(table).constraints for row in rule.combinations for name in row}
    assert {*units} <= listed
    drawn = synth.fit(table, generator="trees").sample(2_000, seed=0)
    assert drawn["test"].value_counts(normalize=True).min() > 0.2


def test_long_lists_within_a_line_are_toml() -> None:
    left = {"kind": "integer", "bounds": (0, 9_999), "spikes": tuple(range(1_000, 1_090))}
    modeled = {"expression": "a", "column": left}
    columns = {
        "a": {"kind": "integer", "bounds": (0, 9)},
        "b": {"kind": "integer", "bounds": (0, 9_999), "modeled": modeled},
    }
    schema = build_schema({"status": "declared", "columns": columns})
    assert build_schema(tomllib.loads(to_toml(schema))) == schema
