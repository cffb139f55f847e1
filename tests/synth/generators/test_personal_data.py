"""Personal data reaches no model: whatever stands in such columns, models and what they write are the same."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.dp.budget import Budget
from synth.dp.mechanisms import InjectedNoise
from synth.errors import JobError
from synth.generators import registry
from synth.generators.base import Model, PrivateGenerator
from synth.schema import Schema, build_schema
from synth.table import violations

SECRET = "Zebulon Quackenbush"
COLUMNS: dict[str, Any] = {
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
        "constant_in_entity": ["name", "sex"], "columns": COLUMNS,
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
    models = [fitted(rows(seed).dropna(how="all", axis=1).reindex(columns=list(COLUMNS)), epsilon) for seed in (2, 3)]
    said, arrays = zip(*(model.distribution.to_arrays() for model in models), strict=True)  # type: ignore[attr-defined]
    assert said[0] == said[1]
    assert all(np.array_equal(arrays[0][key], arrays[1][key]) for key in arrays[0])
    plain = [json.dumps(model.discretizer.to_plain(), default=str) for model in models]  # type: ignore[attr-defined]
    assert plain[0] == plain[1]
    one, other = (model.sample(200, seed=5) for model in models)
    pd.testing.assert_frame_equal(one, other)


def test_a_private_fit_takes_a_personal_column_with_nothing_in_it() -> None:
    one, other = (fitted(rows(seed), 1.0).sample(100, seed=0) for seed in (1, 2))
    pd.testing.assert_frame_equal(one, other)


def test_a_saved_model_holds_nothing_of_them(tmp_path: Path) -> None:
    model = registry.generator("mst", epsilon=1.0).fit(rows(2), SCHEMA)
    model.save(tmp_path / "model")
    written = b"".join(path.read_bytes() for path in (tmp_path / "model").rglob("*") if path.is_file())
    assert SECRET.split()[1].encode() not in written
    loaded = registry.load_model(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.sample(50, seed=1), model.sample(50, seed=1))


@pytest.fixture(scope="module", params=["independent", pytest.param("sdv.gaussian_copula", marks=pytest.mark.slow)])
def sample(request: pytest.FixtureRequest) -> pd.DataFrame:
    if request.param.startswith("sdv"):
        pytest.importorskip("sdv")
    return registry.generator(request.param).fit(rows(2), SCHEMA, seed=0).sample(400, seed=1)


def test_columns_come_in_order_in_their_form_and_new(sample: pd.DataFrame) -> None:
    assert list(sample.columns) == list(COLUMNS)
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


def test_names_alone_may_be_constant_in_an_entity() -> None:
    schema = Schema.model_validate({**dict(SCHEMA), "constant_in_entity": ("name",)})
    synthetic = registry.generator("independent").fit(rows(2), schema, seed=0).sample(200, seed=1)
    assert len(synthetic[["who", "name"]].drop_duplicates()) == synthetic["who"].nunique()


def test_no_row_is_drawn_on_condition_of_personal_data() -> None:
    model = registry.generator("independent").fit(rows(2), SCHEMA, seed=0)
    with pytest.raises(JobError, match="given='mail' is of kind personal, which no model learns"):
        model.sample(5, given={"mail": "a@example.org"})
