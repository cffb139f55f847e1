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

import synth
import understudy as us
from synth.errors import UnderstudyError
from synth.schema import build_schema


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
    (lambda: us.fit(DF, "ctgan", epoch=50), "did you mean 'epochs'?"),
    (lambda: us.fit(DF, seed="one"), "seed='one' must be a whole number"),
    (lambda: us.fit(DF, seed=DF), "seed is a DataFrame; give a whole number from 0"),
    (lambda: us.fit(DF["age"]), "a table must be a frame of pandas, polars"),
    (lambda: us.fit(DF, "mst", epsilon="1"), "write a number without quotes"),
    (lambda: us.generator(DF), "a generator is named, and DataFrame is no name"),
    (lambda: KNOWN.model.sample("10"), "rows='10' must be a whole number from 1"),
    (lambda: KNOWN.model.sample(DF), "rows=DataFrame must be a whole number from 1; known cells are given=..."),
    (lambda: us.split(KNOWN.schema, DF), "split(real, schema) takes the table first"),
    (lambda: us.declare_schema(DF), "pass what synth.infer_schema gives"),
    (lambda: KNOWN.evaluation.verdict("interal"), "did you mean 'internal'?"),
    (lambda: KNOWN.evaluation.plot.columns(), "evaluate with measure 'fidelity.columns'"),
    (lambda: us.compare(KNOWN.table, real=DF, holdout=DF), "names no tables; write {'acme': frame, ...}"),
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
        ({"n_units": 800, "public": {"agee": (0, 1)}}, "did you mean 'age'?"),
        ({"n_units": 800, "public": {"sex": ("f", "m")}}, "categories are a list"),
        ({"n_units": 800, "public": {"age": (120, 0)}}, "reversed"),
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
        assert str(DF["age"].max()) not in notes  # no limit is read off the table


def test_what_a_caller_asserts_is_shown_and_all_other_limits_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    frame = DF.assign(income=np.arange(len(DF)) / 8, number=[f"N-{i:05d}" for i in range(len(DF))])
    model = us.fit(frame, "mst", epsilon=1.0, n_units=800, public=PUBLIC, progress=synth.quiet)
    shown = capsys.readouterr().err
    assert "By n_units and public you assert, and epsilon does not cover:" in shown
    assert "income: bounds are not asserted" in shown
    assert "number: the template of these identifiers may have been read off the table" in shown
    assert "age: the bounds may have been read off" not in shown
    assert (model.schema.status, model.statement.n_units, model.schema.constraints) == ("declared", 800, ())
    assert model.schema.columns["age"].bounds == (0, 120)
    assert model.schema.columns["income"].bounds != (0.0, frame["income"].max())  # measured, with noise


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
    measures = ["fidelity.pairs", "privacy.copies"]
    result = us.compare(tables, real=train, holdout=holdout, target="ill", measures=measures)
    frame = result.to_frame().set_index("table")
    assert dict(frame["standing"])["copy"] == "disqualified"
    assert frame["rank"]["acme"] <= frame["rank"]["beta"]
    assert "copy: privacy." in str(result) and max(map(len, str(result).splitlines())) <= 80
    assert result.report(tmp_path / "r.html").read_text().count("acme") > 2


def test_importing_is_quick_and_imports_nothing_heavy_before_it_is_used() -> None:
    code = (
        "import sys, time, understudy; print(len({'numpy', 'pandas', 'torch'} & {*sys.modules}), time.process_time())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    n_heavy, seconds = out.stdout.split()
    assert int(n_heavy) == 0
    assert float(seconds) < 0.3


def test_a_split_waits_for_no_measure_and_no_estimator() -> None:
    heavy = {"sklearn", "scipy.stats", "evaluate.engine"}
    code = f"import sys, understudy; understudy.split; print(*({heavy} & {{*sys.modules}}))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


HOSTILE = "</td><script>alert(1)</script>"


def test_a_schema_is_one_line_and_a_table_of_its_columns() -> None:
    columns = {
        HOSTILE: {"kind": "integer", "bounds": [0, 99], "missing": True},
        "town": {"kind": "categorical", "categories": ["a", "b"]},
        "income": {"kind": "real", "measure": True},
        "id": {"kind": "identifier", "template": "P-###"},
        "mail": {"kind": "personal", "personal": "email", "locale": "de_DE"},
        "note": {"kind": "text", "drop": True},
    }
    schema = build_schema({"status": "declared", "n_units": 1200, "target": "town", "columns": columns})
    assert repr(schema) == "<Schema declared: 5 columns, 1,200 units, target 'town'>"
    assert [line.split()[:3] for line in str(schema).splitlines()[2:4]] == [
        ["town", "categorical", "a,"],
        ["income", "real", "measured"],
    ]
    page = schema._repr_html_()
    assert "<script" not in page
    for text in ("0 to 99", "<td>a, b</td>", "<td>measured</td>", "P-###", "email, de_DE", "left out", "target"):
        assert text in page
