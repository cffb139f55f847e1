"""The published study of reconstruction: its score, its tables made again, and what our results say of them."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

import synth
from benchmarks.reconstruction import KNOWN, OTHERS, WIDE, _drawn, forest, ours, score
from benchmarks.reconstruction_tables import CART, CELLS, RANKS, TARGET, binned, make, swapped

ROOT = Path(__file__).parents[2]
RESULTS = json.loads(OTHERS.with_suffix(".json").read_text(encoding="utf-8"))["runs"]


def test_every_value_of_a_column_counts_alike() -> None:
    rows = pd.DataFrame({"rare": [*"aaaaaaaa", "b", "b"], "even": [*"ab"] * 5})
    usual = {"rare": np.full(10, "a"), "even": np.full(10, "a")}
    assert score(rows, usual) == 50.0
    assert score(rows, usual | {"rare": np.array([*"aaaabbbb", "b", "b"])}) == 62.5


def test_numbers_change_places_with_others_of_nearly_their_rank() -> None:
    values, rng = np.random.default_rng(0).permutation(1_000), np.random.default_rng(1)
    drawn = swapped(values, rng)
    low, high, between = values < 50, values >= 950, (values >= 50) & (values < 950)
    assert set(drawn[low]) == {24} and set(drawn[high]) == {974}
    assert sorted(drawn[between]) == sorted(values[between])
    moved = np.abs(drawn - values)[between]
    assert moved.max() <= 160 and np.median(moved) > 20
    assert (binned(pd.Series([0, 9, 10, 11, 199, 200])) == [5, 5, 5, 15, 195, 195]).all()


def test_rows_of_few_are_left_out_and_a_copy_is_guessed() -> None:
    rng = np.random.default_rng(0)
    train = pd.DataFrame({name: rng.choice([*"ab"], 400) for name in KNOWN if name != "age"})
    train = train.assign(age=rng.integers(20, 50, 400), hours=rng.integers(1, 9, 400), income=rng.choice([*"xy"], 400))
    few = make(train, synth.infer_schema(train), CELLS, 0, 1.0)
    assert isinstance(few, pd.DataFrame)
    assert 0 < len(few) < 400 and few.groupby(["age", "sex", "race"]).size().min() >= 5
    guessed = ours(train, train, KNOWN, 0)
    assert {*guessed} == {"hours", TARGET}
    theirs = forest(train, train, KNOWN, 0, guessed)
    assert min(score(train, guessed), score(train, theirs)) > 80
    assert score(train, ours(train.assign(hours=rng.permutation(train["hours"])), train, KNOWN, 0)) < 75


def test_the_page_shows_what_the_results_give_and_what_was_made_again_is_as_published() -> None:
    page = (ROOT / "docs/explanation/evaluation.md").read_text(encoding="utf-8")
    for table in "\n".join(_drawn(RESULTS)).strip().split("\n\n"):
        header, *drawn = table.splitlines()
        shown = page.partition(f"{header}\n")[2].partition("\n\n")[0].splitlines()
        assert len(shown) > 4 and {*shown} <= {*drawn}
    published = pd.read_csv(OTHERS, index_col="method")
    for fit, theirs in {CELLS: CELLS, RANKS: RANKS, CART: "synthpop"}.items():
        runs = pd.DataFrame(RESULTS[str(WIDE)][fit].values()).mean(numeric_only=True).to_dict()
        known = published.loc[theirs].to_dict()
        assert abs(runs["forest"] - known["forest"]) < 1.5
        assert all(abs(runs[name] - known[name]) < 0.02 for name in ("tstr", "shape", "trend"))
        assert runs["ours"] > known["best"]
