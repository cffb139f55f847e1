"""The benchmark of conditions and imputation: its rivals against the arithmetic, and a run on a small table."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import conditions
from synth.declare import declare_schema
from synth.infer import infer_schema
from synth.table import conform


def made(n_rows: int = 2400) -> pd.DataFrame:
    """A number, two categories of which one tells the other, a number of many values with gaps, and a target."""
    rng = np.random.default_rng(0)
    land = rng.choice(["a", "b", "c"], n_rows, p=[0.4, 0.3, 0.3])
    x = rng.normal(size=n_rows).round(2)
    return pd.DataFrame(
        {
            "hours": np.where(rng.random(n_rows) < 0.45, 40, rng.integers(10, 70, n_rows)),
            "land": land,
            "town": [f"{one}{digit}" for one, digit in zip(land, rng.integers(1, 3, n_rows), strict=True)],
            "x": np.where(rng.random(n_rows) < 0.1, np.nan, x),
            "y": np.where(x + 0.3 * rng.normal(size=n_rows) > 0, "yes", "no"),
        }
    )


def test_conditions_are_on_frequent_values_in_the_middle_at_both_ends_and_of_a_number() -> None:
    table = made()
    schema = declare_schema(infer_schema(table, target="y"), n_units=len(table))
    found = conditions._conditions(conform(table, schema), schema)
    town, most = (table[name].mode().iloc[0] for name in ("town", "y"))
    assert found == {
        "none": {}, "middle": {"town": town}, "ends": {"hours": 40, "y": most}, "number": {"hours": 40},
        "rare": {"y": "no" if most == "yes" else "yes"},
    }  # fmt: skip
    # Too few rows for both ends: nothing is asked of them.
    assert "ends" not in conditions._conditions(conform(table.head(1200), schema), schema)


def test_a_hidden_cell_has_no_part_in_the_distance_to_a_row() -> None:
    rng = np.random.default_rng(1)
    train = pd.DataFrame({"x": rng.normal(size=200), "z": rng.normal(size=200), "c": rng.choice([0.0, 1.0], 200)})
    rows = train.head(20).copy()
    rows.loc[::2, "x"] = np.nan
    texts = {"c": np.array(["a", "b"], dtype=object)}
    found = conditions._nearest(train, rows, texts)
    numbers = train[["x", "z"]] / train[["x", "z"]].std()
    hot = pd.DataFrame({"a": train["c"] == 0, "b": train["c"] == 1}).astype(float)
    features = pd.concat([numbers, hot], axis=1).to_numpy()
    for row in range(20):
        names = [1, 2, 3] if row % 2 == 0 else [0, 1, 2, 3]
        distances = ((features[:, names] - features[row, names]) ** 2).sum(1)
        assert found[row].tolist() == np.argsort(distances, kind="stable")[:10].tolist()


def test_a_vote_leaves_out_missing_cells() -> None:
    texts = [["a", None], ["b", None], ["b", "c"]]
    numbers = [[1.0, np.nan], [9.0, 2.0], [3.0, 4.0]]
    frames = [
        pd.DataFrame({"t": t, "n": n}, dtype=object).astype({"n": float}) for t, n in zip(texts, numbers, strict=True)
    ]
    assert conditions._voted(frames).to_dict("list") == {"t": ["b", "c"], "n": [3.0, 3.0]}
    assert conditions._first(frames).to_dict("list") == {"t": ["a", "c"], "n": [1.0, 2.0]}


def test_any_table_is_asked_on_conditions_and_filled_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "PIECE_ROWS", 1_000)
    made().to_csv(tmp_path / "made.csv", index=False)
    out = tmp_path / "out.json"
    asked = ["--target", "y", "--generators", "trees", "latent_class", "--seeds", "1", "--drawn", "3000"]
    conditions.main([str(tmp_path / "made.csv"), *asked, "--out", str(out)])
    drawn = capsys.readouterr().out
    run = json.loads(out.read_text())["runs"]["0"]
    middle = run["conditions"]["middle"]
    assert list(middle["given"]) == ["town"]
    assert middle["answers"]["trees"]["how"] in {"exact", "weights"}
    for answer in middle["answers"].values():
        assert answer["tv"] < 0.5 * answer["all_tv"]
        assert answer["picked_tv"] < 0.5 * answer["all_tv"]
    assert run["fits"]["trees"]["impute_cpu_s"] is not None
    draws, likely = (run["imputation"][kind] for kind in (conditions.DRAWN, conditions.LIKELY))
    assert draws["trees"]["land"]["accuracy"] > 0.9
    assert draws["latent_class"]["land"]["accuracy"] > 0.9
    assert draws["random train value"]["land"]["accuracy"] < 0.5
    assert likely["most frequent value or median"]["x"]["error"] == pytest.approx(1.0)
    assert likely["latent_class, vote or median of 10 draws"]["x"]["error"] < 0.9
    # A table that was drawn is drawn again from the file, and nothing is fitted.
    before = out.read_text()
    conditions.main([str(tmp_path / "made.csv"), *asked, "--out", str(out)])
    assert capsys.readouterr().out == drawn
    assert out.read_text() == before
