"""Models of published tables: how well they fit, whose guarantee it is, and what the check of residuals catches."""

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import understudy as us
from synth.errors import BadInput, ModelError, TableError, TableNote
from synth.schema import build_schema
from tests.extras.marginals.office import REGIONS, SCALES, SCHEMA, N, counts_of, people, published, schema_of
from understudy.extras.marginals.model import PublishedModel
from understudy.extras.marginals.tables import PublishedTable

if TYPE_CHECKING:
    from conftest import Workspace

OFFICE = {"name": "Office of Statistics", "epsilon": 1.0, "delta": 1e-6, "unit": "person"}
YES_NO = build_schema({"status": "declared", "columns": {"ill": {"kind": "boolean", "missing": True}}})


@pytest.fixture(scope="module")
def model() -> PublishedModel:
    fitted: PublishedModel = us.from_marginals(published(), schema_of(), n=N, publisher=OFFICE)
    return fitted


def test_coarse_and_fine_tables_are_fitted_together(model: PublishedModel) -> None:
    drawn, real = model.sample(seed=0), people()
    assert len(drawn) == N
    for columns, most in ((["age"], 0.03), (["region", "age"], 0.03), (["age", "status"], 0.03)):
        gaps = counts_of(drawn, columns)["value"] - counts_of(real, columns)["value"]
        assert gaps.abs().sum() / 2 / N < most
    # No table has regions by status: they are as independent as age allows.
    north = drawn[drawn["region"] == "north"]["status"].eq("at home").mean()
    assert north == pytest.approx(real[real["region"] == "north"]["status"].eq("at home").mean(), abs=0.03)


def test_a_saved_model_draws_the_same_rows_and_keeps_whose_guarantee_it_is(
    model: PublishedModel, tmp_path: Path
) -> None:
    model.save(tmp_path / "model")
    loaded: Any = us.load(tmp_path / "model")
    rows = pd.DataFrame({"age": [3, 33, 93], "status": ["child", "at work", "at home"]})
    every: tuple[dict[str, Any], ...] = ({}, {"given": rows})
    for options in every:
        pd.testing.assert_frame_equal(loaded.sample(seed=1, **options), model.sample(seed=1, **options))
    assert loaded.statement is None
    assert loaded.origin == model.origin
    content = json.loads((tmp_path / "model/model.json").read_text())
    content["origin"]["publisher"]["epsilon"] = -1
    (tmp_path / "model/model.json").write_text(json.dumps(content))
    with pytest.raises(ModelError, match="damaged"):
        us.load(tmp_path / "model")


def test_the_guarantee_is_the_publishers_and_none_where_there_is_no_noise(model: PublishedModel) -> None:
    quoted = (
        "no formal guarantee of its own; quoted and not checked: 'Office of Statistics' claims epsilon 1, "
        "delta 1e-06, unit 'person'"
    )
    assert model.promise == quoted
    assert quoted in repr(model) and "quoted and not checked" in model._repr_html_()
    assert "epsilon" not in us.from_marginals(published(), schema_of(), n=N).promise
    tables = {name: {**each, "cells": counts_of(people(), name.split(" by "))} for name, each in published().items()}
    exact = {name: {"cells": each["cells"], "mechanism": "none"} for name, each in tables.items()}
    assert us.from_marginals(exact, schema_of()).promise == "no formal guarantee"
    with pytest.raises(TableError, match="no table has noise"):
        us.from_marginals(exact, schema_of(), publisher=OFFICE)
    mixed = us.from_marginals(
        {**published(), "total": {"cells": [N][0], "mechanism": "none"}}, schema_of(), publisher=OFFICE
    )
    assert mixed.promise.endswith("without noise, so that no such claim covers them: total")


def test_tables_are_weighed_by_their_variance() -> None:
    def table(counts: list[int], scale: float) -> dict[str, Any]:
        return {"cells": counts, "columns": ["ill"], "mechanism": "laplace", "scale": scale}

    fitted = us.from_marginals({"a": table([400, 500, 100], 10.0), "b": table([460, 540, 0], 20.0)}, YES_NO)
    np.testing.assert_allclose(fitted.distribution.marginal(("ill",))[[0, 1, 3]], [412, 508, 80], atol=1)
    assert fitted.default_rows == 1000


@pytest.mark.parametrize(
    ("mechanism", "scale", "variance"),
    [
        ("gaussian", 3.0, 9.0), ("laplace", 3.0, 18.0), ("none", None, 0.25), ("discrete gaussian", 30.0, 900.0),
        ("geometric", 1 / np.log(2), 4.0),  # a = 1/2, 2 a / (1 - a)^2
        ("discrete gaussian", 0.5, 2 * (np.exp(-2) + 4 * np.exp(-8)) / (1 + 2 * (np.exp(-2) + np.exp(-8)))),
    ],
)  # fmt: skip
def test_the_variance_is_that_of_the_mechanism(mechanism: Any, scale: float | None, variance: float) -> None:
    table = PublishedTable(cells=[], mechanism=mechanism, scale=scale)
    assert table.sigma**2 == pytest.approx(variance, rel=1e-5)


def told(seed: int, declared: dict[str, float] | None = None) -> str:
    """What the check says of the office's tables; nothing where they are as declared."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        try:
            us.from_marginals(published(seed, declared), schema_of(), n=N)
        except TableError as error:
            return str(error)
    return "; ".join(str(note.message) for note in notes if note.category is TableNote)


WRONG = {"too small": 0.5, "too large": 2.0}


def is_caught(seed: int, name: str, direction: str) -> bool:
    """True if a wrong scale is told of, with its direction; one that names another table is not counted."""
    message = told(seed, dict.fromkeys(SCALES if name == "all" else (name,), WRONG[direction]))
    return f"a scale is {direction}" in message and (name == "all" or f"table={name!r}" in message)


@pytest.mark.parametrize("direction", WRONG)
@pytest.mark.parametrize("name", ["age by status", "all"])
def test_a_wrong_scale_is_caught_with_its_table_and_direction(name: str, direction: str) -> None:
    assert is_caught(100, name, direction)
    assert not told(100)


@pytest.mark.statistical
def test_most_wrong_scales_are_caught_and_false_alarms_are_rare() -> None:
    # Few of region by age are: the fit follows a table that alone tells of its cells, and little is left of it.
    assert sum(bool(told(seed)) for seed in range(60)) <= 3
    for name, least in (("all", 16), ("age by status", 12)):
        assert sum(is_caught(seed, name, way) for seed in range(100, 108) for way in WRONG) >= least


def wrong(**changed: Any) -> Any:
    """Tables of which that of region by age is changed."""
    tables = published()
    return {**tables, "region by age": {**tables["region by age"], **changed}}


def cells(change: Any) -> Any:
    return wrong(cells=change(published()["region by age"]["cells"]))


rounded = {
    name: {
        "cells": counts_of(people(), name.split(" by ")).assign(value=lambda c: c["value"].round(-1)),
        "mechanism": "none",
    }
    for name in ("region by age", "age by status")
}
BAD: dict[str, tuple[Any, str]] = {
    "no number": (lambda: cells(lambda c: c.assign(value=[np.nan, *c["value"][1:]])), "1 of its 'value' are missing"),
    "infinite": (lambda: cells(lambda c: c.assign(value=[np.inf, *c["value"][1:]])), "infinite or no numbers"),
    "unknown category": (lambda: cells(lambda c: c.replace("north", "up")), "column='region' holds values outside"),
    "lost cell": (lambda: cells(lambda c: c.iloc[1:]), "lacks 1 of its 80 cells"),
    "lost category": (lambda: cells(lambda c: c[c["region"] != "west"]), "1 of its 4 are not there"),
    "twice": (lambda: cells(lambda c: pd.concat([c, c.iloc[:1]])), "a cell stands there twice"),
    "beginning late": (lambda: cells(lambda c: c[c["age"] > 0]), "begins above the bounds of the column"),
    "missing": (lambda: cells(lambda c: pd.concat([c, c.iloc[:1].assign(region=None)])), "table='region by age'"),
    "other column": (lambda: cells(lambda c: c.rename(columns={"age": "height"})), "column='height' is none that"),
    "no value": (lambda: cells(lambda c: c.drop(columns="value")), "column='value' is not there"),
    "zero": (lambda: wrong(scale=0), "scale=0: input should be greater than or equal to 0.001"),
    "no scale": (lambda: wrong(scale=None), "mechanism='discrete gaussian' has a scale; add it"),
    "exact": (lambda: wrong(mechanism="none"), "scale is of noise, and mechanism is none"),
    "other mechanism": (lambda: wrong(mechanism="cauchy"), "mechanism='cauchy'"),
    "shape": (lambda: wrong(cells=np.zeros((3, 2)), columns=["region", "status"]), "has shape=(4, 3), and not (3, 2)"),
    "ragged": (lambda: wrong(cells=[[1, 2], [3]], columns=["region"]), "has shape=(4,), and not (2,)"),
    "too many": (lambda: cells(lambda c: c.assign(value=10**12)), "and a model has 1e+10 at most"),
    "unknown key": (lambda: wrong(sigma=1), "unknown key 'sigma'"),
    "group": (lambda: wrong(groups={"region": {"up": ["northern"]}}), "a group names an unknown category"),
    "empty group": (lambda: wrong(groups={"region": {"up": []}}), "at least 1 item"),
    "rounded": (lambda: {"age": published()["age"], **rounded}, "its counts are not exact"),
    "group of numbers": (lambda: wrong(groups={"age": {"old": [99]}}), "a number names where each begins"),
    "no table of it": (lambda: {"age": published()["age"]}, "columns=region, status are in no table"),
    "no name": (lambda: [published()["age"]], "tables are told by their names"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_table_that_cannot_be_used_is_refused_in_one_sentence(what: str) -> None:
    tables, clause = BAD[what]
    with pytest.raises(BadInput) as refusal:
        us.from_marginals(tables(), schema_of())
    assert clause in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_an_inferred_schema_and_too_large_a_model_are_refused() -> None:
    with pytest.raises(BadInput, match="one that is declared"):
        us.from_marginals(published(), schema_of(status="inferred"))
    with pytest.raises(BadInput, match=r"and max_model_mb=0\.02: they have"):
        whole = {"cells": counts_of(people(), ["region", "age", "status"]), "mechanism": "none"}
        us.from_marginals({"age": published()["age"], "whole": whole}, schema_of(), max_model_mb=0.02)
    with pytest.raises(BadInput, match="are more than max_model_mb has room for"):
        us.from_marginals(published(), schema_of(), max_model_mb=0.001)
    with pytest.raises(BadInput, match="columns=age are to be measured"):
        us.from_marginals(published(), schema_of(columns={"age": {"kind": "integer", "measure": True}}))


@pytest.mark.parametrize("n", [N // 2, 2 * N])
def test_a_number_of_rows_that_no_table_sums_to_is_refused_by_its_name(n: int) -> None:
    with pytest.raises(TableError, match=f"sums to [0-9,]+, and n={n:,}: its noise does not explain it"):
        us.from_marginals(published(), schema_of(), n=n)


@pytest.mark.parametrize(
    "arguments", [{"n": True}, {"n": 10**400}, {"seed": -1}, {"seed": "x"}, {"max_model_mb": np.nan}]
)
def test_an_argument_that_cannot_be_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=f"{next(iter(arguments))}="):
        us.from_marginals(published(), schema_of(), **arguments)


@pytest.mark.parametrize(("mechanism", "scale"), [("laplace", 9.0), ("geometric", 0.5), ("discrete gaussian", 0.4)])
def test_noise_has_the_spread_and_the_variance_that_are_said(mechanism: Any, scale: float) -> None:
    table = PublishedTable(cells=[], mechanism=mechanism, scale=scale)
    noise = table.noise((1_000_000,), np.random.default_rng(0))
    assert np.var(noise) == pytest.approx(table.sigma**2, rel=0.02)
    assert np.var(noise**2) / (2 * np.mean(noise**2) ** 2) == pytest.approx(table.spread, rel=0.1)


def test_groups_of_categories_and_missing_values_have_cells() -> None:
    schema = build_schema({"status": "declared", "columns": {
        "region": {"kind": "categorical", "categories": REGIONS, "missing": True}, "ill": {"kind": "boolean"},
    }})  # fmt: skip
    alone = pd.DataFrame({"region": [*REGIONS, None], "value": [400, 300, 200, 60, 40]})
    both = pd.DataFrame({
        "region": ["north", "rest", None] * 2, "ill": [True] * 3 + [False] * 3, "value": [390, 6, 38, 10, 554, 2],
    })  # fmt: skip
    groups = {"region": {"rest": ["east", "south", "west"]}}
    fitted = us.from_marginals({
        "alone": {"cells": alone, "mechanism": "none"}, "both": {"cells": both, "mechanism": "none", "groups": groups},
    }, schema)  # fmt: skip
    drawn = fitted.sample(1000, seed=0)
    assert drawn["region"].value_counts(dropna=False).tolist() == [400, 300, 200, 60, 40]
    ill = drawn.groupby(drawn["region"].fillna("?"))["ill"].sum()
    assert (abs(ill - pd.Series({"?": 38, "east": 3, "north": 390, "south": 2, "west": 1})) <= 2).all()


@pytest.fixture
def office(workspace: "Workspace") -> "Workspace":
    folder = workspace.folder
    (folder / "census.schema.toml").write_text(SCHEMA)
    lines = ['[marginals]\nschema = "census.schema.toml"', f"n = {N}", "[marginals.publisher]"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in OFFICE.items()]
    for name, table in published().items():
        table["cells"].to_csv(folder / f"{name}.csv", index=False)
        lines += [f'[marginals.tables."{name}"]', f'cells = "{name}.csv"', 'mechanism = "discrete gaussian"']
        lines += [f"scale = {table['scale']}"]
    (folder / "census.toml").write_text("\n".join(lines))
    return workspace


def test_a_job_of_tables_leaves_a_sealed_folder_without_a_real_table(office: "Workspace") -> None:
    job, out = office.folder / "census.toml", office.folder / "out"
    before = office.listing()
    assert "nothing was run" in office.run("run", job).stdout
    assert office.listing() == before
    ran = office.run("run", job, "--out", out, "--json")
    assert ran.exit_code == 0
    assert "quoted and not checked" in ran.json["guarantee"]
    assert [each["verdict"] for each in ran.json["tables"]] == ["as declared"] * 4
    assert len(pd.read_csv(out / "synthetic.csv")) == N
    assert office.run("verify", out).exit_code == 0
    loaded: Any = us.load(out / "model")
    pd.testing.assert_frame_equal(loaded.sample(seed=0).astype(str), pd.read_csv(out / "synthetic.csv").astype(str))
    assert office.run("check", job).exit_code == 0


def test_a_job_whose_scale_is_too_small_ends_with_2_and_leaves_nothing(office: "Workspace") -> None:
    job = office.folder / "census.toml"
    job.write_text(job.read_text().replace("scale = 12.0", "scale = 6.0"))
    before = office.listing()
    ran = office.run("run", job, "--out", office.folder / "out")
    assert (ran.exit_code, office.listing()) == (2, before)
    assert "a scale is too small" in ran.stderr
