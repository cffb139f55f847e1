"""`import understudy as us`: what is typed works, and what was meant is said where it does not."""

import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import reports
import synth
import understudy as us
from synth.errors import BudgetError, UnderstudyError


def people(n: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 91, n)
    return pd.DataFrame({"age": age, "sex": rng.choice(["f", "m"], n), "ill": rng.random(n) < age / 120})


DF = people()


class Known:
    """What is called with, made when it is first used: whoever only collects tests fits nothing."""

    schema = cached_property(lambda self: synth.infer_schema(DF))
    model = cached_property(lambda self: us.fit(DF, self.schema, "independent"))
    table = cached_property(lambda self: self.model.sample(seed=0))
    evaluation = cached_property(lambda self: us.evaluate(DF, self.table, schema=self.schema, measures="validity"))


KNOWN = Known()
CALLS: list[tuple[Callable[[], Any], str]] = [
    (lambda: us.fit("trees", DF), "the table comes first: fit(real, 'trees')"),
    (lambda: us.fit(KNOWN.schema, DF), "real is a Schema, and the table comes first"),
    (lambda: us.fit(DF, "tree"), "did you mean 'trees'?"),
    (lambda: us.fit(DF, "schema.toml"), "read a schema by `synth.read_schema`"),
    (lambda: us.fit(DF, "ctgan", 50), "give parameters by their names"),
    (lambda: us.fit(DF, "ctgan", epoch=50), "did you mean 'epochs'?"),
    (lambda: us.fit(DF, seed="one"), "seed='one' must be a whole number"),
    (lambda: us.fit(DF["age"]), "a table must be a frame of pandas, polars"),
    (lambda: us.fit(DF, "mst", n_units=9), "there is no epsilon; set one"),
    (lambda: us.fit(DF, "mst", epsilon="1"), "write a number without quotes"),
    (lambda: us.fit(DF, us.generator("mst"), n_bins=9), "'n_bins' is one more; give all in one place"),
    (lambda: us.generator("ctgan").fit(DF), "write fit(real, schema), or synth.fit(real, 'ctgan')"),
    (lambda: us.generator(DF), "a generator is named, and DataFrame is no name"),
    (lambda: KNOWN.model.sample("10"), "rows is a str, and a number belongs there"),
    (lambda: KNOWN.model.sample(DF), "known cells are given=..."),
    (lambda: KNOWN.model.sample(5, given={"agee": 3}), "did you mean 'age'?"),
    (lambda: us.split(KNOWN.schema, DF), "split(real, schema) takes the table first"),
    (lambda: us.split(DF, KNOWN.schema, target="ill"), "a schema names target and entity"),
    (lambda: us.split(DF, target="il"), "did you mean 'ill'?"),
    (lambda: us.declare_schema(DF), "pass what synth.infer_schema gives"),
    (lambda: us.evaluate(KNOWN.table), "takes the real rows that the generator saw first"),
    (lambda: us.evaluate(DF, KNOWN.model), "synthetic is a model; pass the table that its sample() gives"),
    (lambda: us.evaluate(DF, KNOWN.table, holdout=KNOWN.schema), "write schema=..."),
    (lambda: us.evaluate(DF, KNOWN.table, holdot=DF), "did you mean 'holdout'?"),
    (lambda: us.evaluate(DF, KNOWN.table, schema="schema.toml"), "schema is a str; pass what"),
    (lambda: us.judge("internal", KNOWN.evaluation), "takes an evaluation first"),
    (lambda: KNOWN.evaluation.verdict("interal"), "did you mean 'internal'?"),
    (lambda: KNOWN.evaluation.plot.columns(), "evaluate with measure 'fidelity.columns'"),
    (lambda: us.compare(KNOWN.table, real=DF, holdout=DF), "names no tables; write {'acme': frame, ...}"),
    (lambda: us.compare({"a": KNOWN.table}, real=DF, holdout=None), "`us.split` keeps a holdout apart"),
    (lambda: us.load("nowhere"), "'nowhere' is none; name a saved model"),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_a_wrong_type_order_or_name_is_one_sentence_that_says_what_was_meant(number: int) -> None:
    call, words = CALLS[number]
    with pytest.raises((UnderstudyError, TypeError)) as raised:
        call()
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


PUBLIC: dict[str, Any] = {"age": (0, 120), "sex": ["f", "m"]}


@pytest.mark.parametrize(
    ("asserted", "words"),
    [
        ({}, "n_units=None and public=None"),
        ({"n_units": 800}, "public=None"),
        ({"public": PUBLIC}, "n_units=None"),
        ({"n_units": 800, "public": ["age"]}, "write them by column"),
        ({"n_units": 800, "public": {"agee": (0, 1)}}, "did you mean 'age'?"),
        ({"n_units": 800, "public": {"sex": ("f", "m")}}, "categories are a list"),
        ({"n_units": 800, "public": {"ill": (0, 1)}}, "nothing else has limits"),
        ({"n_units": 800, "public": {"age": (120, 0)}}, "reversed"),
        ({"n_units": "many", "public": {}}, "must be a whole number"),
    ],
)
def test_a_private_fit_without_a_schema_says_what_a_person_would_have_to_assert(
    asserted: dict[str, Any], words: str
) -> None:
    with pytest.raises(UnderstudyError) as raised:
        us.fit(DF, epsilon=1.0, **asserted)
    assert words in str(raised.value)
    if words.endswith("=None"):
        notes = "\n".join(raised.value.__notes__)
        assert "the kinds and the dtypes of the columns are public knowledge" in notes
        assert ("from 0 to 120" in notes) == ("public" in asserted)
        assert str(DF["age"].max()) not in notes  # no limit is read off the table


def test_what_a_caller_asserts_is_shown_and_all_other_limits_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    frame = DF.assign(income=np.arange(len(DF)) / 8, number=[f"N-{i:05d}" for i in range(len(DF))])
    model = us.fit(frame, "mst", epsilon=1.0, n_units=800, public=PUBLIC, progress=synth.quiet)
    shown = capsys.readouterr().err
    assert "By n_units and public you assert:" in shown
    assert "every value is a whole number from 0 to 120" in shown
    assert "income: bounds are not asserted" in shown
    assert "number: the template of these identifiers may have been read off the table" in shown
    assert "age: the bounds may have been read off" not in shown
    assert model.schema.columns["age"].bounds == (0, 120)
    assert model.schema.status == "declared"
    assert not model.schema.constraints
    assert model.statement.n_units == 800
    assert model.schema.columns["income"].bounds != (0.0, frame["income"].max())  # measured, with noise


def test_how_many_rows_of_a_unit_a_private_fit_takes_is_not_read_off_the_table() -> None:
    frame = pd.concat([DF[:200]] * 3).assign(patient_id=lambda rows: [f"P-{i % 200:04d}" for i in range(len(rows))])
    with pytest.raises(BudgetError, match="column='patient_id' seems to name units"):
        us.fit(frame, epsilon=1.0, n_units=900, public={})
    train, holdout = us.split(frame)
    assert not {*train["patient_id"]} & {*holdout["patient_id"]}


def test_one_row_less_moves_no_other_where_a_private_split_infers_what_columns_are() -> None:
    frame = DF.assign(town=["a"] + ["b", "c"] * 299 + ["c"], income=np.arange(len(DF)) / 7)
    frame.loc[0, "income"] = 1e6  # the first row alone has this town, and the largest income
    whole, less = (us.split(rows, private=True) for rows in (frame, frame[1:]))
    assert (whole.inside[1:] == less.inside).all()
    pd.testing.assert_frame_equal(whole.holdout, frame[whole.inside].reset_index(drop=True), check_dtype=False)


def test_a_holdout_is_a_third_of_few_rows_and_a_fifth_where_their_number_is_not_public() -> None:
    assert [len(side) for side in us.split(DF)] == pytest.approx([396, 204], abs=1)
    assert [len(side) for side in us.split(DF, private=True)] == pytest.approx([480, 120], abs=40)
    assert [len(side) for side in us.split(DF, KNOWN.schema, holdout_share=0.5)] == [300, 300]


def test_a_generator_passes_the_checks_that_scikit_learn_has_for_estimators() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of arrays that are too small for anything
        results = check_estimator(us.Synthesizer("independent"), on_fail=None)
    assert [each["check_name"] for each in results if each["status"] == "failed"] == []
    assert sum(each["status"] == "passed" for each in results) > 30


def test_an_estimator_has_the_parameters_of_its_generator() -> None:
    first = us.Synthesizer("mst", n_bins=16, seed=3)
    second = clone(first).set_params(n_bins=8)
    assert (first.get_params()["n_bins"], second.get_params()["n_bins"]) == (16, 8)
    rows = first.fit(DF).sample(20, seed=0)
    assert rows.equals(us.fit(DF, KNOWN.schema, "mst", n_bins=16, seed=3).sample(20, seed=0))
    assert clone(first).fit(DF.to_numpy()).sample(4).shape == (4, 3)
    with pytest.raises(UnderstudyError, match="did you mean 'n_bins'"):
        clone(first).set_params(n_bin=8).fit(DF)


def test_tables_are_ranked_and_one_that_copies_is_not(tmp_path: Path) -> None:
    train, holdout = us.split(people(600), target="ill")
    good, poor = (us.fit(train, name, progress=synth.quiet).sample(seed=0) for name in ("mst", "independent"))
    tables = {"acme": good, "beta": poor, "copy": train}
    measures = ["fidelity.pairs", "privacy.copies", "privacy.membership"]
    result = us.compare(tables, real=train, holdout=holdout, target="ill", measures=measures)
    frame = result.to_frame().set_index("table")
    assert dict(frame["standing"])["copy"] == "disqualified"
    assert frame["rank"]["acme"] <= frame["rank"]["beta"]
    assert repr(result).startswith("<Comparison of 3 tables: 'acme (a)'")
    assert "copy: privacy." in str(result)
    assert max(map(len, str(result).splitlines())) <= 80
    assert result.report(tmp_path / "r.html").read_text().count("acme") > 2


def test_importing_is_quick_and_imports_nothing_heavy_before_it_is_used() -> None:
    code = (
        "import sys, time, understudy; print(len({'numpy', 'pandas', 'torch'} & {*sys.modules}), time.process_time())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    n_heavy, seconds = out.stdout.split()
    assert int(n_heavy) == 0
    assert float(seconds) < 0.3


def test_public_names_are_those_of_the_packages_beneath() -> None:
    assert us.fit is synth.fit
    assert us.load is synth.load_model
    assert {*us.__all__} <= {*dir(us)}
    assert us.sdv.__name__ == "understudy.extras.sdv"
    assert reports.write_html
    with pytest.raises(AttributeError, match="did you mean 'evaluate'"):
        us.evalute  # noqa: B018
