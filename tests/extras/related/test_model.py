"""Synthetic related tables: every key holds, and what depends on what in the real ones does in these."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import understudy as us
from benchmarks.related_tables import RECORDS_KEYS, SHOP_KEYS, records, shop
from synth.errors import BadInput, TableError
from synth.progress import quiet
from tests.extras.related.shops import KEYS
from tests.extras.related.shops import shop as small
from tests.extras.related.visits import pair, stays_ill
from tests.extras.related.visits import schemas as of_pair
from understudy.extras.related.evaluation import evaluate_related, split_related, valid_keys
from understudy.extras.related.fit import fit_related
from understudy.extras.related.keys import Keys
from understudy.extras.related.matching import deal, match
from understudy.extras.related.model import RelatedModel, sampled_below

Tables = dict[str, pd.DataFrame]


@pytest.fixture(scope="module")
def fitted() -> tuple[Any, RelatedModel, Tables]:
    real = shop(250)
    model = fit_related(real, SHOP_KEYS, "trees", keep=("product",), seed=1)
    return real, model, model.sample(seed=2)


def test_all_keys_hold_and_tables_are_as_they_came(fitted: tuple[Any, RelatedModel, Tables]) -> None:
    real, _, drawn = fitted
    assert set(valid_keys(drawn, Keys.of(SHOP_KEYS)).values()) == {1.0}
    for name, table in real.items():
        assert list(drawn[name].columns) == list(table.columns)
        assert drawn[name].dtypes.astype(str).to_dict() == table.dtypes.astype(str).to_dict()
        assert 0.8 < len(drawn[name]) / len(table) < 1.25
    pd.testing.assert_frame_equal(drawn["product"], real["product"])
    numbers = drawn["line"].groupby("order_id")["line_no"]
    assert (numbers.min() == 1).all() and (numbers.max() == numbers.size()).all()
    assert 0.01 < drawn["customer"]["region_id"].isna().mean() < 0.06
    assert 0.01 < drawn["line"]["product_id"].isna().mean() < 0.06


def test_a_ticket_names_an_order_of_its_own_customer_and_no_order_is_named_twice(fitted: Any) -> None:
    _, _, drawn = fitted
    named = drawn["ticket"].dropna(subset="order_id").merge(drawn["order"], on="order_id", suffixes=("", "_of_order"))
    assert len(named) > 50
    assert (named["customer_id"] == named["customer_id_of_order"]).all()
    assert named["order_id"].is_unique
    assert (named["topic"] == "delivery").mean() > (drawn["ticket"]["topic"] == "delivery").mean()


def test_what_depends_on_a_parent_or_on_its_parent_still_does(fitted: Any) -> None:
    real, _, drawn = fitted
    apart = []
    for tables in (real, drawn):
        orders = tables["order"].merge(tables["customer"], on="customer_id").merge(tables["region"], on="region_id")
        web = orders["channel"] == "web"
        lines = tables["line"].groupby("order_id").size().reindex(orders["order_id"]).to_numpy()
        priced = tables["line"].merge(tables["product"], on="product_id")
        apart.append([
            web[orders["age"] < 40].mean() - web[orders["age"] > 50].mean(),
            web[orders["wealth"] > 0.5].mean() - web[orders["wealth"] < -0.5].mean(),
            lines[~web].mean() - lines[web].mean(),
            np.corrcoef(priced["price"], priced["amount"])[0, 1],
        ])  # fmt: skip
    assert (np.array(apart[0]) > 0.2).all()
    assert (np.array(apart[1]) > 0.6 * np.array(apart[0])).all()  # of shuffled parents they are 0


def test_a_key_that_is_primary_and_foreign_and_one_of_two_parents_hold() -> None:
    real = records(800)
    model = fit_related(real, RECORDS_KEYS, "trees", keep=("country",))
    drawn = model.sample(seed=1)
    assert set(valid_keys(drawn, Keys.of(RECORDS_KEYS)).values()) == {1.0}
    assert not drawn["rating"].duplicated(["customer_id", "track_id"]).any()
    apart = []
    for tables in (real, drawn):
        rated = tables["rating"].merge(tables["customer"], on="customer_id").merge(tables["track"], on="track_id")
        items = tables["item"].merge(tables["track"], on="track_id")
        rated, items = (each.merge(tables["album"], on="album_id") for each in (rated, items))
        is_old, pop = rated["year"] < 1990, items["genre"] == "pop"
        apart.append([
            is_old[rated["born"] < 1980].mean() - is_old[rated["born"] >= 1980].mean(),
            items["quantity"][pop].mean() - items["quantity"][~pop].mean(),
        ])  # fmt: skip
    assert (np.array(apart[0]) > 0.25).all()
    assert (np.array(apart[1]) > 0.6 * np.array(apart[0])).all()
    fewer = model.sample({"customer": 50, "album": 30}, seed=1)
    assert (len(fewer["customer"]), len(fewer["album"])) == (50, 30)
    alone = next(t for t in (model.sample({"customer": 1, "album": 1}, seed=seed) for seed in range(9))
                 if len(t["invoice"]) == 0)  # fmt: skip
    assert alone["invoice"].dtypes.to_dict() == real["invoice"].dtypes.to_dict()
    with pytest.raises(BadInput, match="n_roots=50 is of one table"):
        model.sample(50)


def test_what_holds_between_a_row_and_those_above_it_still_does() -> None:
    rng, n = np.random.default_rng(0), 250
    day, days = pd.Timestamp("2024-01-01"), "D"
    customer = pd.DataFrame({"customer": np.arange(n), "since": day + pd.to_timedelta(rng.integers(0, 900, n), days)})
    by = np.repeat(np.arange(n), rng.poisson(2, n))
    placed = customer["since"].to_numpy()[by] + pd.to_timedelta(rng.geometric(0.02, len(by)) - 1, days)
    order = pd.DataFrame({"order": np.arange(len(by)), "customer": by, "placed": placed})
    order["fee"] = rng.gamma(3, 9, len(by)).round(2)
    at = np.repeat(np.arange(len(by)), 1 + rng.poisson(0.5, len(by)))
    line = pd.DataFrame({"order": at, "sent": placed[at] + pd.to_timedelta(rng.geometric(0.3, len(at)) - 1, days)})
    line["price"] = rng.gamma(3, 9, len(at)).round(2)
    line["sum"] = (line["price"] + order["fee"].to_numpy()[at]).round(2)
    last = customer["since"].max() + pd.Timedelta(4000, days)  # below whom no order is on a day that there is
    customer = pd.concat([customer, pd.DataFrame({"customer": [n], "since": [last]})], ignore_index=True)
    keys = {
        "customer": "customer", "order": {"primary": "order", "foreign": {"customer": "customer"}},
        "line": {"foreign": {"order": "order"}},
    }  # fmt: skip
    model = fit_related({"customer": customer, "order": order, "line": line}, keys, "trees")
    drawn = model.sample(seed=1)
    lines = drawn["line"].merge(drawn["order"], on="order").merge(drawn["customer"], on="customer")
    assert len(lines) > 400
    assert ((lines["since"] <= lines["placed"]) & (lines["placed"] <= lines["sent"])).all()
    assert np.allclose(lines["price"] + lines["fee"], lines["sum"])
    first = customer["since"].min()
    known = pd.DataFrame({"customer.since": [last, first, last, first], "customer.rows of order": 1})
    rows, kept = sampled_below(model.models["order"], known, rng)
    assert kept.tolist() == [1, 3]
    assert len(rows) == 2
    none, _ = sampled_below(model.models["order"], known.iloc[[0]], rng)
    assert (len(none), none.dtypes.to_dict()) == (0, rows.dtypes.to_dict())


def test_numbers_of_rows_that_few_have_are_not_lost() -> None:
    numbers = np.repeat([0, 1, 2, 15], [60, 60, 60, 12])
    left = pd.DataFrame({"a": np.arange(len(numbers)), "x": np.arange(len(numbers)) % 7})
    right = pd.DataFrame({"a": np.repeat(left["a"], numbers), "y": np.arange(numbers.sum()) % 5})
    keys = {"left": "a", "right": {"foreign": {"a": "left"}}}
    model = fit_related({"left": left, "right": right}, keys, "trees")
    drawn = [model.sample(seed=seed)["right"]["a"].value_counts() for seed in range(5)]
    assert 0.85 < np.mean([each.sum() for each in drawn]) / numbers.sum() < 1.15
    assert max(each.max() for each in drawn) <= 15


def test_a_saved_model_draws_the_same_tables(fitted: Any, tmp_path: Path) -> None:
    _, model, drawn = fitted
    model.save(tmp_path / "model")
    again = us.load_related(tmp_path / "model").sample(seed=2)
    for name, table in drawn.items():
        pd.testing.assert_frame_equal(again[name], table)


def test_rows_follow_each_other_where_a_schema_names_their_order() -> None:
    patients, visits = pair(1200)
    schemas = dict(zip(("patients", "visits"), of_pair(), strict=True))
    keys = {"patients": "who", "visits": {"foreign": {"who": "patients"}}}
    real = {"patients": patients, "visits": visits}
    drawn = fit_related(real, keys, "trees", schemas=schemas).sample(seed=1)
    assert drawn["visits"]["who"].isin(drawn["patients"]["who"]).all()
    apart = [
        stays_ill(t["patients"], t["visits"], "f") - stays_ill(t["patients"], t["visits"], "m") for t in (real, drawn)
    ]
    assert apart[0] > 0.5
    assert apart[1] > 0.25


def test_orphans_that_are_kept_are_rows_without_a_parent_and_nothing_is_inferred_unsaid(capsys: Any) -> None:
    tables = small(300)
    tables["customer"] = tables["customer"].iloc[18:]
    with pytest.raises(TableError, match="set orphans to drop"):
        fit_related(tables, KEYS, "trees", keep=("product",))
    drawn = fit_related(tables, None, "trees", keep=("product",), orphans="keep").sample(seed=0)
    assert "customer_id -> customer" in capsys.readouterr().err
    assert 0.02 < drawn["order"]["customer_id"].isna().mean() < 0.2
    named = drawn["order"]["customer_id"].dropna()
    assert named.isin(drawn["customer"]["customer_id"]).all()


def test_a_row_without_anything_to_learn_still_names_its_parents() -> None:
    left = pd.DataFrame({"a": np.arange(200), "x": np.arange(200) % 7})
    right = pd.DataFrame({"b": np.arange(100), "y": np.arange(100) % 5})
    rng = np.random.default_rng(0)
    both = pd.DataFrame({"a": rng.integers(0, 200, 400), "b": rng.integers(0, 100, 400)}).drop_duplicates()
    keys = {"left": "a", "right": "b", "both": {"primary": ["a", "b"], "foreign": {"a": "left", "b": "right"}}}
    drawn = fit_related({"left": left, "right": right, "both": both}, keys, "trees").sample(seed=0)
    assert set(valid_keys(drawn, Keys.of(keys)).values()) == {1.0}
    assert 300 < len(drawn["both"]) < 500


@pytest.mark.parametrize("gone", [("ticket",), ("order", "line"), ("product",)])
def test_tables_without_rows_stay_so_and_keep_their_columns(gone: tuple[str, ...]) -> None:
    real = small(60)
    lost = {"order": ("ticket", "order_id", "Int64"), "product": ("line", "product_id", "object")}
    for name in gone:
        real[name] = real[name].iloc[:0]
        child, column, dtype = lost.get(name, ("ticket", "order_id", "Int64"))
        real[child] = real[child].assign(**{column: pd.Series(None, real[child].index, dtype=dtype)})
    drawn = fit_related(real, KEYS, "trees", keep=("product",), progress=quiet).sample(seed=0)
    for name, table in real.items():
        assert (len(drawn[name]) == 0) == (len(table) == 0)
        assert drawn[name].dtypes.astype(str).to_dict() == table.dtypes.astype(str).to_dict()


def test_a_generator_that_draws_no_rows_given_others_is_refused_before_a_fit() -> None:
    with pytest.raises(
        BadInput, match=r"customer: generator='ctgan' hardly finds rows .* choose one that draws rows given"
    ):
        fit_related(shop(20), SHOP_KEYS, "ctgan", epochs=1, keep=("product",), progress=quiet)


def test_few_regions_do_not_blur_what_their_customers_rows_depend_on() -> None:
    rng = np.random.default_rng(0)
    regions = pd.DataFrame({"region": np.arange(30)})
    customers = pd.DataFrame({"customer": np.arange(600), "region": rng.integers(0, 30, 600)})
    customers["gold"] = rng.random(600) < 0.3
    at = np.repeat(np.arange(600), np.where(customers["gold"], 5, 1))
    orders = pd.DataFrame({"order": np.arange(len(at)), "customer": at, "sum": rng.gamma(2, 9, len(at)).round(2)})
    keys = {
        "regions": "region", "customers": {"primary": "customer", "foreign": {"region": "regions"}},
        "orders": {"primary": "order", "foreign": {"customer": "customers"}},
    }  # fmt: skip
    drawn = fit_related(
        {"regions": regions, "customers": customers, "orders": orders}, keys, "trees", progress=quiet
    ).sample(seed=0)
    counts = drawn["customers"]["customer"].map(drawn["orders"]["customer"].value_counts()).fillna(0)
    means = counts.groupby(drawn["customers"]["gold"]).mean()
    assert means[True] > 4 > 1.6 > means[False]


def test_a_split_does_not_depend_on_the_dtype_of_keys_and_a_damaged_model_is_refused(
    fitted: Any, tmp_path: Path
) -> None:
    tables = {"one": pd.DataFrame({"id": np.arange(50)})}
    more = {"one": pd.DataFrame({"id": [*range(50), np.nan]})}
    held, again = (split_related(each, {"one": "id"}, seed=1)[1]["one"]["id"] for each in (tables, more))
    assert held.tolist() == again.dropna().astype(int).tolist()
    with pytest.raises(BadInput, match=r"0 < holdout_share=2\.0 < 1"):
        split_related(tables, {"one": "id"}, holdout_share=2.0)
    fitted[1].save(tmp_path / "model")
    (tmp_path / "model" / "related.json").write_text("[]")
    with pytest.raises(BadInput, match="is damaged"):
        us.load_related(tmp_path / "model")


def test_parents_are_matched_by_what_was_drawn_of_them_and_as_often_as_they_are_to_be() -> None:
    rng = np.random.default_rng(0)
    parent = pd.DataFrame({"kind": rng.choice(["x", "y"], 200), "size": rng.normal(size=200)})
    slots = rng.poisson(5, 200)
    wanted = parent.iloc[np.repeat(np.arange(200), slots)].sample(frac=1.0, random_state=0).reset_index(drop=True)
    beside = pd.DataFrame({"own": wanted["size"] + 0.1})
    at = match(wanted, beside, parent, slots, None, rng)
    assert np.bincount(at, minlength=200).tolist() == slots.tolist()
    assert (parent["kind"].to_numpy()[at] == wanted["kind"]).mean() > 0.9
    assert np.corrcoef(parent["size"].to_numpy()[at], wanted["size"])[0, 1] > 0.98


def test_names_are_dealt_within_groups_to_no_row_more_often_than_it_may_have() -> None:
    rows, parents = np.array([0, 0, 0, 1, 1, 2, -1]), np.array([0, 0, 1, 3])
    slots = np.array([[1, 0, 1, 1], [0, 1, 1, 1]])
    at = deal(rows, parents, slots, np.array([2, 1, 1]), np.random.default_rng(0))
    assert sorted(at[:3]) == [-1, 0, 1]
    assert sorted(at[3:5]) == [-1, 2]
    assert at[5:].tolist() == [-1, -1]


def test_an_evaluation_tells_a_model_from_children_that_were_shuffled(fitted: Any) -> None:
    real, _, drawn = fitted
    strangers = drawn["order"]["customer_id"].sample(frac=1.0, random_state=0).array
    shuffled = {**drawn, "order": drawn["order"].assign(customer_id=strangers)}
    asked: dict[str, Any] = {"holdout": shop(250, seed=1), "keys": SHOP_KEYS, "keep": ("product",)}
    good = evaluate_related(real, drawn, **asked)
    bad = evaluate_related(real, shuffled, **asked, attacks=False)
    of_orders = [next(e for e in each.compared if (e.table, e.what) == ("order", "parents")) for each in (good, bad)]
    assert of_orders[0].ratio < 1.3 < of_orders[1].ratio
    copied = evaluate_related(real, real, **asked)
    areas = [each.attack["AUC of the attack on units"][0] for each in (good, copied)]
    assert areas[0] < 0.65
    assert areas[1] > 0.9


def test_a_unit_is_on_one_side_with_all_its_rows_and_moves_no_other() -> None:
    tables = small(100)
    train, holdout = split_related(tables, KEYS, keep=("product",), holdout_share=0.3)
    for name in ("customer", "order", "line", "ticket"):
        assert len(train[name]) + len(holdout[name]) == len(tables[name])
    for side in (train, holdout):
        assert len(side["customer"]) > 15
        assert side["order"]["customer_id"].isin(side["customer"]["customer_id"]).all()
        assert side["line"]["order_id"].isin(side["order"]["order_id"]).all()
    fewer = {**tables, "customer": tables["customer"].iloc[1:].sample(frac=1.0, random_state=0)}
    again = split_related(fewer, KEYS, keep=("product",), holdout_share=0.3)[1]["customer"]["customer_id"]
    assert {*again} == {*holdout["customer"]["customer_id"]} - {tables["customer"]["customer_id"].iloc[0]}
    with pytest.raises(BadInput, match="set unit to the table whose rows are people"):
        split_related(records(50), RECORDS_KEYS, keep=("country",))


def test_units_that_are_copied_are_found_though_each_of_their_rows_is_frequent() -> None:
    def people(n: int, seed: int) -> dict[str, pd.DataFrame]:
        rng = np.random.default_rng(seed)
        tables = {"person": pd.DataFrame({"id": np.arange(n), "sex": rng.choice(["f", "m"], n)})}
        return tables | {
            f"t{i}": pd.DataFrame({"id": np.arange(n), "v": rng.choice(list("abcd"), n)}) for i in range(6)
        }

    keys = {"person": "id", **{f"t{i}": {"foreign": {"id": "person"}} for i in range(6)}}
    train, holdout = people(600, 0), people(600, 1)
    areas = []
    for synthetic in (train, people(600, 2)):
        found = us.evaluate_related(train, synthetic, holdout=holdout, keys=keys)
        areas.append(found.attack["AUC of the attack on units"])
    assert areas[0][1] > 0.7
    assert areas[1][1] <= 0.5 <= areas[1][2]
