"""The public benchmark: splits as published, distances, ranks, and the picture."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.published import FIGURES, FITS, RANKED, _nearer, _rank, all_figures, beside
from benchmarks.published_chart import chart
from benchmarks.published_tables import TABLES, PublishedSplit, read_split

ROOT = Path(__file__).parents[2]


def test_a_table_is_split_as_published(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 999, (400, 10))).assign(kind=np.where(np.arange(400) < 2, "rare", "frequent"))
    table.to_csv(tmp_path / "magic.csv", index=False, header=False)
    split, half = read_split(tmp_path, "magic"), read_split(tmp_path, "magic", halves=True)
    order = np.arange(400)
    np.random.RandomState(1234).shuffle(order)
    assert (split.train["fLength"] == table[0][order[:360]].to_numpy()).all()
    assert [len(split.test), len(half.train), len(half.test)] == [40, 200, 200]
    assert split.categories == ["class"] == [split.target]

    beijing = pd.DataFrame(rng.integers(0, 9, (300, 12))).astype(object)
    beijing.insert(0, "No", range(300))
    beijing.iloc[:, 9] = np.where(np.arange(300) == 7, "rare", "NW")
    beijing.iloc[:4, 5] = "NA"
    beijing.to_csv(tmp_path / "beijing.csv", index=False)
    split = read_split(tmp_path, "beijing", halves=True)
    assert len(split.train) + len(split.test) == 296
    assert "rare" in set(split.train.iloc[:, 8])  # each category is in train
    assert split.target in split.numbers
    with pytest.raises(FileNotFoundError, match=r"no file adult\.\*"):
        read_split(tmp_path, "adult")


def test_distances_count_numbers_by_their_range_and_categories_twice() -> None:
    train = pd.DataFrame({"x": [0.0, 10.0], "kind": ["a", "b"]})
    test = pd.DataFrame({"x": [2.0, 4.0], "kind": ["a", "b"]})
    drawn = pd.DataFrame({"x": [0.5, 2.5, 9.0, 3.0], "kind": ["a", "a", "b", "c"]})
    split = PublishedSplit(train, test, ["x"], ["kind"], "kind", is_regression=False)
    assert _nearer(split, drawn) == 0.5  # the last is 2.1 from test, 2.3 from train


def test_ranks_are_beside_all_who_published_and_the_picture_has_them() -> None:
    runs = {"xgb": 0.86, "seconds": 9.0, "mle": 0.56, "trend": 0.9, "wnmis": 0.9999}
    everyone = all_figures({table: {"trees": {"0": runs, "1": runs}} for table in TABLES})
    assert {*everyone["TabDiff"]["magic"]} < {*FIGURES}
    ranks = {(table, figure): _rank(everyone, "trees", table, figure) for table in TABLES for figure in runs}
    assert all(ranks[table, "seconds"] and ranks[table, "wnmis"] and not ranks[table, "trend"] for table in TABLES)
    assert ranks["adult", "xgb"] and not ranks["shoppers", "xgb"]
    assert ranks["beijing", "mle"] and not ranks["magic", "mle"]  # an error there, an area here
    assert _rank(everyone, "arn", "magic", "xgb") is None
    root = ET.fromstring(chart(everyone, FITS))
    names = [each.text for each in root.iter() if "name" in each.get("class", "")]
    assert {"trees", "TabPC"} <= {*names} and "GReaT" not in names  # which has no figure of adult


def test_the_first_page_shows_what_the_results_give() -> None:
    everyone = all_figures(json.loads((ROOT / "benchmarks/published.json").read_text(encoding="utf-8"))["tables"])
    page = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    assert "\n".join(beside(everyone)) in page
    n_first = sum(bool(_rank(everyone, FITS[0], table, figure)) for table in TABLES for figure in RANKED)
    assert f"in {n_first} of {len(TABLES) * len(RANKED)} cells" in page
    assert chart(everyone, FITS) == (ROOT / "docs/published.svg").read_text(encoding="utf-8")
