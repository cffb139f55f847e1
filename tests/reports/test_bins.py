"""Pictures of a column: an axis names values that occur, categories stand in an order, and better is right."""

import re
from itertools import pairwise

import pytest

from evaluate.result import Estimate
from reports.charts import extent_of, overlay, strip


def ticks(labels: list[str], kind: str = "integer") -> list[str]:
    """The texts below the axis, from left to right."""
    n = len(labels)
    figure = {
        "column": "c", "kind": kind, "labels": [*labels, "other", "missing"], "edges": [i - 0.5 for i in range(n + 1)],
        "train": [1 / n] * n + [0.0, 0.0], "synthetic": [1 / n] * n + [0.0, 0.0], "tvd": 0.0,
    }  # fmt: skip
    found = re.findall(r'<text class="tick num" x="([\d.]+)" y="131"[^>]*>([^<]*)</text>', str(overlay(figure, 1.0)))
    return [text.strip("\u2068\u2069") for _, text in sorted(found, key=lambda tick: float(tick[0]))]


def test_an_integer_column_never_shows_half_a_step() -> None:
    assert ticks(["17", "18 to 21", "22 to 30", "31 to 64", "65 to 90"]) == ["17", "22 to 30", "90"]
    assert ticks(["0", "1", "2", "3", "4"]) == ["0", "2", "4"]


def test_decimals_are_shortened_and_years_keep_no_comma() -> None:
    assert ticks(["0.0000000", "0.0000001 to 0.0434782", "0.0434783 to 59.9999999"], "real") == [
        "0", "1e\u22127 to 0.04348", "60",
    ]  # fmt: skip
    assert ticks(["1990 to 1999", "2000 to 2009", "2010 to 123456"]) == ["1990", "2000 to 2009", "123,456"]
    assert ticks(["-3 to -2", "-1", "0 to 4"]) == ["\u22123", "\u22121", "4"]


def test_bins_without_a_step_show_their_ends() -> None:
    assert ticks(["[0, 0.5)", "[0.5, 0.75)", "[0.75, 1]"], "real") == ["0", "0.5 to 0.75", "1"]


def test_dates_stay_dates_and_leave_out_what_would_overlap() -> None:
    days = [f"2011-{m:02}-01 to 2011-{m:02}-28" for m in range(1, 6)]
    assert ticks(days, "date") == ["2011-01-01", "2011-03-01", "2011-05-28"]


def test_one_bin_is_named_once_and_missing_values_have_a_name() -> None:
    assert ticks(["7"]) == ["7"]
    assert "missing" in str(overlay({**_one_bin(), "train": [0.5, 0.2, 0.3], "synthetic": [1.0, 0.0, 0.0]}, 1.0))
    assert "missing" not in str(overlay({**_one_bin(), "train": [1.0, 0.0, 0.0], "synthetic": [1.0, 0.0, 0.0]}, 1.0))


def _one_bin() -> dict[str, object]:
    return {"column": "c", "kind": "integer", "labels": ["7", "other", "missing"], "edges": [6.5, 7.5], "tvd": 0.0}


@pytest.mark.parametrize("digits", [1, 4, 9, 14])
def test_ticks_never_overlap(digits: int) -> None:
    values = [10**digits + i for i in range(12)]
    shown = ticks([f"{a} to {b - 1}" for a, b in pairwise(values)])
    assert sum(len(text) for text in shown) * 6.4 < 320


@pytest.mark.parametrize(
    ("labels", "ordered", "shown"),
    [
        (["10", "9", "2.5", "<1"], False, ["&lt;1", "2.5", "9", "10"]),
        (["[20-30)", "[0-10)", "[10-20)"], False, ["[0-10)", "[10-20)", "[20-30)"]),
        (["30", "4", "12 rarer ones"], False, ["4", "30", "12 rarer ones"]),
        (["low", "middle", "high"], True, ["low", "middle", "high"]),
        (["low", "middle", "high"], False, ["high", "middle", "low"]),
    ],
)
def test_categories_that_are_numbers_stand_in_their_order_and_others_by_size(
    labels: list[str], ordered: bool, shown: list[str]
) -> None:
    n = len(labels)
    shares = [*((i + 1) / (n * (n + 1) / 2) for i in range(n)), 0.0, 0.0]
    drawn = overlay({"column": "c", "kind": "categorical", "labels": [*labels, "other", "missing"], "edges": None,
                     "ordered": ordered, "train": shares, "synthetic": shares, "tvd": 0.0}, 1.0)  # fmt: skip
    assert re.findall(r'text-anchor="end">([^<]*)</text><rect', str(drawn)) == shown


@pytest.mark.parametrize("direction", ["lower", "higher"])
def test_better_is_right_and_both_ends_are_numbered(direction: str) -> None:
    estimate = Estimate("columns.tvd", 0.3, 9, direction, low=0.2, high=0.4, reference=0.1, floor=0.9)  # type: ignore[arg-type]
    ends = ("0.9", "0.05") if direction == "lower" else ("0.05", "0.9")
    extent = extent_of([estimate], around=(0.05,))
    assert extent == tuple(map(float, ends))
    drawn = str(strip(estimate, extent))
    assert tuple(re.findall(r'tick tiny"[^>]*>([\d.]+)<', drawn)) == ends
    real, dot = (float(re.findall(place, drawn)[0]) for place in (r'class="mark" x1="([\d.]+)"', r'cx="([\d.]+)"'))
    assert (real > dot) is (direction == "lower")
