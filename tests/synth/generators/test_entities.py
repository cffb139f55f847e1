"""Entities of a sample: what is constant in one, keys that hold one, and personal data that is made up."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.dp.budget import Budget
from synth.dp.mechanisms import InjectedNoise
from synth.errors import ModelError
from synth.generators import registry
from synth.generators.base import PrivateGenerator
from synth.generators.models.model import Model
from synth.generators.models.postprocess import deal, group_rows
from synth.schema import Schema, build_schema
from synth.table import violations

SHARES = np.array([0.4, 0.3, 0.0, 0.2, 0.1])

VISIT_COLUMNS: dict[str, Any] = {
    "who": {"kind": "identifier", "bounds": [0, 10**6]},
    "sex": {"kind": "boolean", "missing": True},
    "region": {"kind": "categorical", "categories": ["north", "south a", "south b"], "missing": True},
    "born": {"kind": "date", "bounds": ["1950-01-01", "1950-01-10"]},
    "visit": {"kind": "integer", "bounds": [0, 999]},
}


def content(**more: Any) -> dict[str, Any]:
    head = {"status": "declared", "n_units": 900, "entity": "who", "max_rows_per_unit": 5, "columns": VISIT_COLUMNS}
    return {**head, **more}


@pytest.fixture(scope="module")
def visits() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(900), rng.choice(5, 900, p=SHARES) + 1)
    born = np.datetime64("1950-01-01") + rng.integers(0, 10, 900) * np.timedelta64(1, "D")
    return pd.DataFrame(
        {
            "who": who,
            "sex": pd.array(rng.choice([True, False, None], 900), dtype="boolean")[who],
            "region": rng.choice(np.array([*VISIT_COLUMNS["region"]["categories"], None], dtype=object), 900)[who],
            "born": born[who].astype("datetime64[us]"),
            "visit": rng.integers(0, 1000, len(who)),
        }
    )


FITS: list[dict[str, Any]] = [{}, {"epsilon": 1.0}]


@pytest.fixture(scope="module", params=FITS, ids=str)
def firm(request: pytest.FixtureRequest, visits: pd.DataFrame) -> Model:
    """A fit under a schema that holds columns constant."""
    generator = registry.generator("mst", **request.param)
    return generator.fit(visits, build_schema(content(constant_in_entity=["region", "born", "sex"])), seed=0)


def test_rows_of_an_entity_hold_the_same_values_in_what_is_constant(firm: Model) -> None:
    synthetic = firm.sample(3000, seed=1)
    entities = synthetic.groupby("who")[["region", "born", "sex"]]
    assert (entities.agg(lambda values: len(set(values.map(repr)))) == 1).all(axis=None)
    assert entities.size().max() <= 5
    assert synthetic.groupby("who")["visit"].nunique().max() > 1


def sizes(owner: np.ndarray) -> np.ndarray:
    """Share of entities with 1, 2, ..., 5 rows."""
    of_each = np.bincount(np.bincount(owner), minlength=6)[1:]
    return of_each / of_each.sum()


@pytest.mark.parametrize("n_groups", [1, 30, 600])
def test_sizes_of_entities_keep_their_shares(n_groups: int) -> None:
    """Within 5 standard errors and 2 points of the shares, down to groups of about ten rows."""
    rng = np.random.default_rng(1)
    constant = pd.DataFrame({"a": rng.integers(0, n_groups, 6000)})
    order, owner = group_rows(constant, SHARES, rng)
    assert sorted(order) == list(range(6000))
    values = constant["a"].take(order).reset_index(drop=True)
    assert (values == values.groupby(owner).transform("first")).all()
    n_entities = owner.max() + 1
    assert (np.abs(sizes(owner) - SHARES) < 5 * np.sqrt(SHARES * (1 - SHARES) / n_entities) + 0.02).all()


def test_the_order_of_entities_tells_nothing() -> None:
    """Runs test on which half of the groups an entity is of: within 5 standard errors of half the neighbors."""
    rng = np.random.default_rng(2)
    values = rng.integers(0, 40, 8000)
    order, owner = group_rows(pd.DataFrame({"a": values}), SHARES, rng)
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    large = values[order][starts] >= 20
    changes = (large[1:] != large[:-1]).mean()
    expected = 2 * large.mean() * (1 - large.mean())
    assert abs(changes - expected) < 5 * 0.5 / np.sqrt(len(large))
    assert (np.diff(owner) >= 0).all()


SECRET = "Zebulon Quackenbush"

ABOUT_WHOM: dict[str, Any] = {
    "who": {"kind": "identifier", "template": "P-#####"},
    "name": {"kind": "personal", "personal": "name", "locale": "de_DE"},
    "mail": {"kind": "personal", "personal": "email", "unique": True, "missing": True, "missing_share": 0.2},
    "card": {"kind": "personal", "personal": "card_number", "dtype": "int64"},
    "note": {"kind": "personal", "personal": "text", "length": 40, "missing": True},
    "sex": {"kind": "categorical", "categories": ["f", "m"]},
    "age": {"kind": "integer", "bounds": [0, 99], "bins": [0, 20, 40, 60, 80, 99]},
}

SCHEMA = build_schema(
    {
        "status": "declared", "n_units": 300, "entity": "who", "max_rows_per_unit": 3,
        "constant_in_entity": ["name", "sex"], "columns": ABOUT_WHOM,
    }
)  # fmt: skip


def rows(seed: int) -> pd.DataFrame:
    """The same learned columns for every seed; of personal data, other values, lengths and gaps."""
    same, other = np.random.default_rng(0), np.random.default_rng(seed)
    n = 600
    return pd.DataFrame(
        {
            "who": [f"P-{i // 2:05d}" for i in range(n)],
            "name": [f"{SECRET} {'x' * int(k)}" for k in other.integers(30, size=n)],
            "mail": np.where(other.random(n) < 0.1 * seed, None, f"{SECRET}@{seed}").astype(object),
            "card": other.integers(10**15, size=n),
            "note": pd.Series([None] * n, dtype=object) if seed == 1 else [f"{SECRET} said {i}" for i in range(n)],
            "sex": same.choice(["f", "m"], n // 2).repeat(2),
            "age": same.integers(100, size=n),
        }
    )


def fitted(table: pd.DataFrame, epsilon: float | None, name: str = "mst") -> Model:
    generator = registry.generator(name, epsilon=epsilon)
    if epsilon is None:
        return generator.fit(table, SCHEMA, seed=0)
    assert isinstance(generator, PrivateGenerator)
    schedule = generator.schedule(SCHEMA)
    assert schedule is not None
    return generator.fit(table, SCHEMA, budget=Budget(schedule, InjectedNoise(np.random.default_rng(0))))


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_tables_that_differ_in_personal_data_alone_give_one_model_and_one_output(epsilon: float | None) -> None:
    models = [
        fitted(rows(seed).dropna(how="all", axis=1).reindex(columns=list(ABOUT_WHOM)), epsilon) for seed in (2, 3)
    ]
    plain, arrays = zip(*(model.distribution.to_arrays() for model in models), strict=True)  # type: ignore[attr-defined]
    assert plain[0] == plain[1]
    assert all(np.array_equal(arrays[0][key], arrays[1][key]) for key in arrays[0])
    plain = [json.dumps(model.discretizer.to_plain(), default=str) for model in models]  # type: ignore[attr-defined]
    assert plain[0] == plain[1]
    first, other = (model.sample(200, seed=5) for model in models)
    pd.testing.assert_frame_equal(first, other)


def test_a_saved_model_holds_nothing_of_them(tmp_path: Path) -> None:
    model = registry.generator("mst", epsilon=1.0).fit(rows(2), SCHEMA)
    model.save(tmp_path / "model")
    written = b"".join(path.read_bytes() for path in (tmp_path / "model").rglob("*") if path.is_file())
    assert SECRET.split()[1].encode() not in written
    loaded = registry.load_model(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.sample(50, seed=1), model.sample(50, seed=1))


@pytest.fixture(scope="module")
def sample() -> pd.DataFrame:
    return registry.generator("independent").fit(rows(2), SCHEMA, seed=0).sample(400, seed=1)


def test_columns_come_in_order_in_their_form_and_new(sample: pd.DataFrame) -> None:
    assert list(sample.columns) == list(ABOUT_WHOM)
    assert violations(sample, SCHEMA) == []
    assert sample["card"].dtype == np.int64
    assert sample["mail"].dropna().is_unique
    assert 0.1 < sample["mail"].isna().mean() < 0.3
    assert sample["note"].notna().all()
    assert not sample.astype(str).apply(lambda column: column.str.contains("Quackenbush")).any(axis=None)


def test_an_entity_has_one_name_in_all_its_rows_and_a_mail_in_each(sample: pd.DataFrame) -> None:
    entities = sample.groupby("who")
    assert entities.ngroups < len(sample)
    for name in ("name", "sex"):
        assert len(sample[["who", name]].drop_duplicates()) == entities.ngroups
    assert sample["name"].nunique() > 0.9 * entities.ngroups


KEYED: dict[str, Any] = {
    "who": {"kind": "identifier", "template": "P-####"},
    "visit": {"kind": "integer", "bounds": [1, 500], "missing": True},
    "sex": {"kind": "categorical", "categories": ["f", "m"]},
}


def keyed(*columns: str, **more: Any) -> Schema:
    content = {"status": "declared", "n_units": 500, "entity": "who", "max_rows_per_unit": 3, "columns": KEYED}
    return build_schema({**content, "constraints": [{"kind": "unique", "columns": columns}], **more})


def visits_of(n_values: int, n: int = 300, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    visit = pd.array(rng.integers(1, n_values + 1, n), dtype="Int64")
    return pd.DataFrame({"visit": visit, "sex": rng.choice(["f", "m"], n)})


@pytest.mark.parametrize("n_values", [400, 20, 3])
def test_no_entity_holds_a_value_twice_and_sizes_stay(n_values: int) -> None:
    owner = np.repeat(np.arange(100), 3)
    drawn = visits_of(n_values)
    if n_values == 3:  # every entity needs each of the three values
        drawn["visit"] = pd.array(np.random.default_rng(0).permutation(np.tile([1, 2, 3], 100)), dtype="Int64")
    dealt = deal(drawn, owner, keyed("who", "visit"), np.random.default_rng(1))
    assert not drawn.assign(who=dealt).duplicated(["who", "visit"]).any()
    assert (np.bincount(dealt) == 3).all()


def test_rows_change_hands_among_entities_that_agree_only() -> None:
    drawn = visits_of(30).sort_values("sex").reset_index(drop=True)
    owner = np.repeat(np.arange(150), 2)
    first_m = int((drawn["sex"] == "f").sum())
    owner[first_m:] += first_m % 2  # no entity has both
    key = keyed("who", "visit", constant_in_entity=["sex"])
    dealt = deal(drawn, owner, key, np.random.default_rng(1))
    table = drawn.assign(who=dealt)
    assert not table.duplicated(["who", "visit"]).any()
    assert len(table.drop_duplicates(["who", "sex"])) == len(table.drop_duplicates("who"))


def test_what_no_way_of_dealing_keeps_is_said() -> None:
    with pytest.raises(ModelError, match="cannot be dealt to entities so that 'who' and 'visit' never repeat together"):
        deal(visits_of(2), np.repeat(np.arange(100), 3), keyed("who", "visit"), np.random.default_rng(0))


def test_a_fitted_generator_keeps_the_key_of_its_entities() -> None:
    key = keyed("who", "visit")
    train = visits_of(40).assign(who=[f"P-{i // 3:04d}" for i in range(300)])
    table = registry.generator("independent").fit(train, key, seed=0).sample(300, seed=1)
    assert table["who"].duplicated().any()
    assert not table.dropna().duplicated(["who", "visit"]).any()
