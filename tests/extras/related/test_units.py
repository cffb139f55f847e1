"""A private fit of related tables: one unit taken away changes its own rows, and no query by more than is declared."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.dp.budget import Budget
from synth.errors import BudgetError
from synth.generators.registry import generator
from synth.schema import Schema, build_schema
from tests.extras.related.shops import KEYS, schemas, shop
from understudy.extras.related import units as bounding
from understudy.extras.related.fit import fit_related
from understudy.extras.related.keys import Keys
from understudy.extras.related.walk import Walk, lay_out

Tables = dict[str, pd.DataFrame]
KEEP = ("product",)


def strewn(seed: int) -> Tables:
    """A shop with all that a database should not hold: keys twice, in one unit and in two, orphans, rows that name
    another unit's, and more rows of a unit than are declared.
    """
    rng, tables = np.random.default_rng(seed), shop(8, seed)
    customer, order, line, ticket = (tables[name] for name in ("customer", "order", "line", "ticket"))
    customer = pd.concat([customer, customer.iloc[:2].assign(age=33)], ignore_index=True)
    more = order.sample(6, replace=True, random_state=seed).assign(channel="web")
    elsewhere = order.iloc[:3].assign(customer_id=customer["customer_id"].to_numpy()[rng.integers(0, 8, 3)])
    lost = order.iloc[:1].assign(order_id=5000, customer_id="K99999")
    order = pd.concat([order, more, elsewhere, lost, more.assign(order_id=2000 + np.arange(6))], ignore_index=True)
    again = line.sample(12, replace=True, random_state=seed).assign(line_no=np.arange(12))
    line = pd.concat([line, again])
    line = pd.concat([line, line.iloc[:2].assign(order_id=[5000, 7777])], ignore_index=True)
    strangers = order["order_id"].sample(4, random_state=seed).to_numpy()
    ticket = pd.concat([ticket, ticket.sample(4, replace=True, random_state=seed).assign(order_id=strangers)])
    shared = ticket.sample(3, replace=True, random_state=seed).assign(
        order_id=elsewhere["order_id"].to_numpy(), customer_id=elsewhere["customer_id"].to_numpy()
    )
    ticket = pd.concat([ticket, shared])  # of an order whose key another unit has, too
    ticket = ticket.assign(ticket_id=rng.integers(0, 6, len(ticket))).reset_index(drop=True)
    return {**tables, "customer": customer, "order": order, "line": line, "ticket": ticket}


def laid_out(tables: Tables, bound: Callable[..., Any]) -> Walk:
    rows, parents = bound(tables, Keys.of(KEYS), KEEP, "customer")
    return lay_out(rows, parents, Keys.of(KEYS), KEEP, schemas(), private=True)


def of_units(walk: Walk, tables: Tables, bound: Callable[..., Any]) -> dict[str, pd.Series]:
    """The key of each row's unit."""
    rows, _ = bound(tables, Keys.of(KEYS), KEEP, "customer")
    names = rows["customer"]["customer_id"].to_numpy()
    return {n: pd.Series(names if n == "customer" else names[walk.above[n]["customer"]]) for n in walk.rows}


def without(tables: Tables, unit: str, walk: Walk, bound: Callable[..., Any]) -> Tables:
    """The tables without a row of the root and all below it. A line is below the order that the walk takes it for."""
    order, line, ticket = (tables[name] for name in ("order", "line", "ticket"))
    rows, parents = bound(tables, Keys.of(KEYS), KEEP, "customer")
    at = parents["line"][Keys.of(KEYS).tables["line"].foreign[0]]
    owner = dict(zip(rows["line"]["order_id"], rows["order"]["customer_id"].to_numpy()[at], strict=True))
    own = set(order["order_id"][order["customer_id"] == unit])
    gone = line["order_id"].map(lambda key: owner.get(key) == unit if key in owner else key in own)
    return {
        **tables, "customer": tables["customer"][tables["customer"]["customer_id"] != unit],
        "order": order[order["customer_id"] != unit], "line": line[~gone],
        "ticket": ticket[ticket["customer_id"] != unit],
    }  # fmt: skip


def everything(rows: pd.DataFrame) -> list[tuple[str, ...]]:
    return plain(rows, pd.Series([True] * len(rows)))


def plain(rows: pd.DataFrame, kept: pd.Series) -> list[tuple[str, ...]]:
    """Rows as texts in no order, but for the number that stands for their unit."""
    rows = rows[[c for c in rows if not str(c).startswith("row of ")]]
    return sorted(tuple(map(str, row)) for row in rows[kept.to_numpy()].itertuples(index=False))


def check(bound: Callable[..., Any]) -> None:
    for seed in range(3):
        tables = strewn(seed)
        whole = laid_out(tables, bound)
        units = of_units(whole, tables, bound)
        for unit in tables["customer"]["customer_id"].unique():
            fewer = without(tables, unit, whole, bound)
            rest = laid_out(fewer, bound)
            assert (rest.schemas, rest.steps) == (whole.schemas, whole.steps)  # all of it public
            for name, rows in whole.rows.items():
                n_units = int((units[name] == unit).sum())
                assert n_units <= whole.schemas[name].max_rows_per_unit
                assert plain(rows, units[name] != unit) == everything(rest.rows[name])
                for column in (c for c in rows if str(c).startswith("rows of ")):
                    assert rows[column].max() <= whole.schemas[name].columns[str(column)].bounds[1]


def test_a_unit_taken_away_takes_its_rows_away_and_changes_no_other() -> None:
    check(bounding.bounded)


MUTANTS: Mapping[str, tuple[str, str]] = {
    "rows of another unit are named": ("k != first and k.table in unit", "False"),
    "keys are unique over units": ('{"unit": units, **', '{"unit": 0, **'),
    "nothing is bounded": ("turn < (limit or np.inf)", "turn < np.inf"),
    "rows below none stay": ("whole = units >= 0", "whole = units >= -1"),
    "rows stay by their place": ("np.argsort(row_keys(frame, list(map(str, frame))), kind=\"stable\")",
                                 "np.arange(len(frame))"),
}  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS)
def test_what_would_break_the_unit_is_caught(mutant: str) -> None:
    source, names = inspect.getsource(bounding.bounded), dict(vars(bounding))
    assert MUTANTS[mutant][0] in source
    exec(source.replace(*MUTANTS[mutant]), names)
    if mutant == "rows stay by their place":  # which no single removal shows, as it keeps the order of the others
        first, second = strewn(0), {n: t.iloc[::-1].reset_index(drop=True) for n, t in strewn(0).items()}
        sides = [laid_out(tables, names["bounded"]).rows["line"] for tables in (first, second)]
        assert everything(sides[0]) != everything(sides[1])
        return
    with pytest.raises((AssertionError, IndexError)):
        check(names["bounded"])


def test_where_rows_stand_does_not_matter() -> None:
    tables = strewn(1)
    turned = {name: table.iloc[::-1].reset_index(drop=True) for name, table in tables.items()}
    sides = [laid_out(each, bounding.bounded).rows for each in (tables, turned)]
    for name, rows in sides[0].items():
        assert everything(rows) == everything(sides[1][name])


Released = tuple[str, np.ndarray, float]


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> list[Released]:
    """What is handed to the noise, with its name and sensitivity."""
    exacts: list[Released] = []
    release = Budget.release

    def recorded(budget: Budget, exact: np.ndarray, event: Any) -> np.ndarray:
        exacts.append((event.what, exact.copy(), event.sensitivity))
        return release(budget, exact, event)

    monkeypatch.setattr(Budget, "release", recorded)
    return exacts


def test_no_query_of_a_fit_changes_by_more_than_it_is_declared_to(released: list[Released]) -> None:
    tables = strewn(2)
    whole = laid_out(tables, bounding.bounded)
    sides = []
    for each in (tables, *(without(tables, unit, whole, bounding.bounded) for unit in ("K00000", "K00003", "K00006"))):
        released.clear()
        model = fit_related(each, KEYS, generator("independent", epsilon=1.0), schemas=schemas(), keep=KEEP)
        assert model.statement is not None
        assert 0.99 < model.statement.epsilon <= 1.0
        sides.append(list(released))
    for other in sides[1:]:
        for (what, exact, sensitivity), (same, fewer, _) in zip(sides[0], other, strict=True):
            assert what == same
            assert np.linalg.norm(exact - fewer) <= sensitivity, what
    assert any((exact != fewer).any() for (_, exact, _), (_, fewer, _) in zip(sides[0], sides[1], strict=True))


def test_rows_below_a_history_are_as_many_as_are_declared(released: list[Released]) -> None:
    """What a unit has beyond the rows that count has rows below it, too, which the fit must not count."""
    n, rng = 40, np.random.default_rng(0)
    who = np.array([f"K{i:05d}" for i in range(n)])
    tables = {"customer": pd.DataFrame({"customer_id": who, "age": rng.integers(20, 80, n)})}
    owner = np.repeat(who, 6)
    visit = {"visit": np.arange(6 * n), "customer_id": owner, "day": rng.integers(0, 300, 6 * n)}
    tables["visit"] = pd.DataFrame({**visit, "ill": rng.choice(["a", "b"], 6 * n)})
    tables["lab"] = pd.DataFrame({"visit": np.repeat(np.arange(6 * n), 2), "value": rng.integers(0, 9, 12 * n)})
    number, day = {"kind": "identifier", "bounds": (0, 10**6)}, {"kind": "integer", "bounds": (0, 365)}
    columns = {"visit": number, "customer_id": {"kind": "identifier", "template": "K#####"}, "day": day,
               "ill": {"kind": "categorical", "categories": ("a", "b")}}  # fmt: skip
    of_visits = {"status": "declared", "entity": "customer_id", "order": "day", "columns": columns}
    of_labs = {"visit": number, "value": {"kind": "integer", "bounds": (0, 9)}}
    own = {
        "customer": schemas()["customer"], "visit": build_schema(of_visits),
        "lab": build_schema({"status": "declared", "columns": of_labs}),
    }  # fmt: skip
    keys = {
        "customer": "customer_id", "visit": {"primary": "visit", "foreign": {"customer_id": "customer"}, "most": 2},
        "lab": {"foreign": {"visit": "visit"}, "most": 2},
    }  # fmt: skip
    sides, gone = [], tables["visit"]["customer_id"] == who[0]
    fewer = {
        "customer": tables["customer"][1:], "visit": tables["visit"][~gone],
        "lab": tables["lab"][~tables["lab"]["visit"].isin(tables["visit"]["visit"][gone])],
    }  # fmt: skip
    for each in (tables, fewer):
        released.clear()
        fit_related(each, keys, generator("mst", epsilon=8.0, n_iterations=20), schemas=own)
        sides.append([row for row in released if row[0].startswith("one-way")])
    for (what, exact, sensitivity), (_, changed, _) in zip(*sides, strict=True):
        assert np.linalg.norm(exact - changed) <= sensitivity, what


ODD: Mapping[str, Callable[[Tables], Tables]] = {
    "a text among the keys": lambda t: {
        "order": t["order"].assign(order_id=["A7", *map(str, t["order"]["order_id"][1:])])
    },
    "a text among numbers": lambda t: {"order": t["order"].assign(n=["x", *map(str, t["order"]["n"][1:])])},
    "a fraction": lambda t: {"order": t["order"].assign(n=[1.5, *t["order"]["n"][1:]])},
    "a missing number": lambda t: {"order": t["order"].assign(n=[np.nan, *t["order"]["n"][1:]])},
}


@pytest.mark.parametrize("odd", ODD)
def test_no_cell_of_a_unit_decides_how_the_others_read(odd: str, released: list[Released]) -> None:
    """The dtype of a column depends on all its cells: what a unit holds would change the keys and hashes of others."""
    tables, sides = shop(30, 3), []
    more = tables["order"].assign(order_id=5000 + np.arange(len(tables["order"])))  # more than count of a unit
    tables["order"] = pd.concat([tables["order"], more], ignore_index=True).assign(n=lambda t: np.arange(len(t)) % 9)
    own = schemas()
    number = {"kind": "real", "bounds": (0, 9), "decimals": 1, "missing": True}
    order = {name: column.model_dump(mode="json") for name, column in own["order"].columns.items()}
    own["order"] = build_schema({"status": "declared", "n_units": 1000, "columns": {**order, "n": number}})
    for each in (tables, {**tables, **ODD[odd](tables)}):
        released.clear()
        fit_related(each, KEYS, generator("independent", epsilon=1.0), schemas=own, keep=KEEP)
        sides.append(list(released))
    for (what, exact, sensitivity), (_, changed, _) in zip(*sides, strict=True):
        assert np.linalg.norm(exact - changed) <= 2 * sensitivity, what  # as if one were taken away, and another came


def test_the_statement_is_on_all_tables_and_each_event_says_of_which() -> None:
    model = fit_related(shop(60), KEYS, "independent", schemas=schemas(), keep=KEEP, epsilon=2.0)
    statement = model.statement
    assert statement is not None
    assert {event.what.split(":")[0] for event in statement.events} == {"customer", "order", "line", "ticket"}
    assert (statement.unit, statement.n_units) == ("customer_id", 1000)
    assert all(each.statement.epsilon == statement.epsilon for each in model.models.values())
    again = model.sample(seed=1)
    assert again["line"]["order_id"].isin(again["order"]["order_id"]).all()


def test_nothing_is_spent_on_what_rows_below_are_drawn_given() -> None:
    own, columns = schemas(), {"age": {"kind": "integer", "measure": True}}
    content = {n: c.model_dump(mode="json") for n, c in own["customer"].columns.items()}
    own["customer"] = build_schema({"status": "declared", "n_units": 1000, "columns": {**content, **columns}})
    model = fit_related(shop(300), KEYS, "mst", schemas=own, keep=KEEP, epsilon=30.0, n_iterations=100)
    assert model.statement is not None
    events = [event for event in model.statement.events if ":" in event.what]
    assert not any("rows per entity" in event.what for event in events)
    assert {event.what.split(":")[0] for event in events if "'age'" in event.what} == {"customer"}
    counted = {event.what.split(":")[0]: getattr(event, "count", 0) for event in events if "one-way" in event.what}
    # Of lines the quantity, whether there is a product, and which; of tickets what they are about.
    assert (counted["line"], counted["ticket"]) == (3, 1)
    drawn = model.sample(seed=1)
    assert 15 < drawn["customer"]["age"].quantile(0.05) < drawn["customer"]["age"].quantile(0.95) < 85
    orders = drawn["order"].merge(drawn["customer"], on="customer_id")
    phone = orders["channel"] == "phone"
    assert phone[orders["age"] > 55].mean() - phone[orders["age"] < 45].mean() > 0.2


def without_key(schema: Schema) -> Schema:
    return schema.model_copy(update={"columns": {n: c for n, c in schema.columns.items() if n != "order_id"}})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keys": None}, "declare keys"),
        ({"keep": ()}, "'product', 'customer' are below none; name lookup tables that are public in keep"),
        ({"schemas": {}}, "needs a declared schema"),
        (
            {"schemas": {**schemas(), "order": without_key(schemas()["order"])}},
            "order: key column='order_id' is not in its",
        ),
        ({"keys": {**KEYS, "order": {"primary": "order_id", "foreign": {"customer_id": "customer"}}}}, "set most"),
    ],
)
def test_a_private_fit_that_cannot_be_is_refused_in_a_sentence(changes: dict[str, Any], message: str) -> None:
    asked = {"keys": KEYS, "schemas": schemas(), "keep": KEEP, **changes}
    with pytest.raises(BudgetError, match=message):
        fit_related(shop(20), generator="mst", epsilon=1.0, **asked)
