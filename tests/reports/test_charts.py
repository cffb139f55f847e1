"""Pictures: an axis names values that occur, categories have an order, better is right, shapes say how it stands."""

import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from evaluate.result import Estimate, Evaluation
from reports.charts import extent_of, inferred, overlay, strip
from reports.charts.frontier import Axis, pareto, tradeoff
from reports.charts.svg import round_values
from reports.sections.attacks import attack_note
from reports.sections.comparison import Mark, Panel, sweep_of
from tests.reports.samples import swept

DAYS = [f"2011-{m:02}-01 to 2011-{m:02}-28" for m in range(1, 6)]


def figure(labels: list[str], kind: str, **more: object) -> dict[str, object]:
    n = len(labels)
    shares = [*((i + 1) / (n * (n + 1) / 2) for i in range(n)), 0.0, 0.0]
    base = {"column": "c", "kind": kind, "labels": [*labels, "other", "missing"], "tvd": 0.0}
    return {**base, "edges": None, "train": shares, "synthetic": shares, **more}


def ticks(labels: list[str], kind: str = "integer") -> list[str]:
    """The texts below the axis, from left to right."""
    drawn = str(overlay(figure(labels, kind, edges=[i - 0.5 for i in range(len(labels) + 1)]), 1.0))
    texts = re.findall(r'<text class="tick num" x="([\d.]+)" y="131"[^>]*>([^<]*)</text>', drawn)
    return [text.strip("\u2068\u2069") for _, text in sorted(texts, key=lambda tick: float(tick[0]))]


@pytest.mark.parametrize(
    ("labels", "kind", "shown"),
    [
        (["17", "18 to 21", "22 to 30", "31 to 64", "65 to 90"], "integer", ["17", "22 to 30", "90"]),
        (["0.000", "0.0000001 to 0.0434782", "0.0434783 to 59.9999999"], "real", ["0", "1e\u22127 to 0.04348", "60"]),
        (["1990 to 1999", "2000 to 2009", "2010 to 123456"], "integer", ["1990", "2000 to 2009", "123,456"]),
        (["-3 to -2", "-1", "0 to 4"], "integer", ["\u22123", "\u22121", "4"]),
        (["[0, 0.5)", "[0.5, 0.75)", "[0.75, 1]"], "real", ["0", "0.5 to 0.75", "1"]),
        (DAYS, "date", ["2011-01-01", "2011-03-01", "2011-05-28"]),
        (["7"], "integer", ["7"]),
    ],
)  # fmt: skip
def test_an_axis_shows_values_that_occur_as_one_writes_them(labels: list[str], kind: str, shown: list[str]) -> None:
    assert ticks(labels, kind) == shown


@pytest.mark.parametrize("digits", [1, 4, 9, 14])
def test_ticks_never_overlap(digits: int) -> None:
    values = [10**digits + i for i in range(12)]
    assert sum(len(text) for text in ticks([f"{a} to {b - 1}" for a, b in pairwise(values)])) * 6.4 < 320


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
    drawn = str(overlay(figure(labels, "categorical", ordered=ordered), 1.0))
    assert re.findall(r'text-anchor="end">([^<]*)</text><rect', drawn) == shown


@pytest.mark.parametrize("direction", ["lower", "higher"])
def test_better_is_right_and_both_ends_are_numbered(direction: str) -> None:
    estimate = Estimate("columns.tvd", 0.3, 9, direction, low=0.2, high=0.4, reference=0.1, floor=0.9)  # type: ignore[arg-type]
    ends = ("0.9", "0.05") if direction == "lower" else ("0.05", "0.9")
    extent = extent_of([estimate], around=(0.05,))
    assert extent == tuple(map(float, ends))
    drawn = str(strip(estimate, extent))
    assert tuple(re.findall(r'tick tiny"[^>]*>([\d.]+)<', drawn)) == ends
    real, dot = (float(re.findall(at, drawn)[0]) for at in (r'class="mark" x1="([\d.]+)"', r'cx="([\d.]+)"'))
    assert (real > dot) is (direction == "lower")
    assert round_values(0.4, 0.95) == [0.4, 0.6, 0.8]


def test_inferred_columns_have_a_row_each_and_alarms_are_marked(evaluation: Evaluation) -> None:
    columns = attack_note(evaluation.candidates[2]).columns[:5]
    drawn = str(inferred(columns))
    assert drawn.count('class="dot"') == drawn.count('class="dot hollow"') == 5
    assert drawn.count("tick num hot") == sum(column.alarms for column in columns) == 1


def test_each_table_is_one_mark_whose_shape_says_how_it_stands() -> None:
    marks = [Mark("x", 0.9, 0.88, 0.92, 0.51, best=True, barred=False), Mark("y", 0.8, 0.8, 0.8, 0.52, False, False)]
    drawn = ElementTree.fromstring(pareto([*marks, Mark("z", 0.95, 0.9, 1.0, 0.7, False, True)], ("use", "risk"), 0.9))
    classes = [element.get("class") for element in drawn.iter()]
    assert [classes.count(name) for name in ("dot", "dot hollow", "cross")] == [1, 1, 2]
    spoken = str(drawn.get("aria-label"))
    assert "x (beaten by none)" in spoken and "z (disqualified)" in spoken
    (dot,) = (each for each in ElementTree.fromstring(pareto(marks[:1], ("use", "risk"))).iter() if each.get("cx"))
    assert 0 < float(dot.get("cx", "nan")) < 560 and 0 < float(dot.get("cy", "nan")) < 330


def panel(n_seeds: int = 3) -> Panel:
    sweep = sweep_of(swept(n_seeds=n_seeds))
    assert sweep is not None
    return sweep.panels[0]


def test_error_bars_and_seeds_are_drawn_and_nothing_joins_the_fit_without_epsilon() -> None:
    drawn = str(tradeoff(panel()))
    assert [drawn.count(f'class="{name} s0"') for name in ("bar", "seed", "run")] == [15, 15, 3]
    assert "epsilon 0.3: 0.684, " in drawn
    assert 'class="bar' not in str(tradeoff(panel(n_seeds=1)))
    axis = Axis.of(panel().epsilons)
    assert axis.places[1.0] - axis.places[0.3] == pytest.approx(axis.places[10.0] - axis.places[3.0]), "logarithmic"
    assert axis.places[None] - axis.places[10.0] > 40 and axis.ends is not None


@pytest.mark.parametrize("only", [(None,), (1.0,), (1.0, None)])
def test_few_epsilons_are_drawn_too(only: tuple[float | None, ...]) -> None:
    (curve,) = panel().curves
    less = replace(curve, dots=tuple(dot for dot in curve.dots if dot[0] in only))
    drawn = str(tradeoff(replace(panel(), curves=(less,), epsilons=only, reference=None, floor=None)))
    assert "NaN" not in drawn
    assert drawn.count("<circle") == 4 * len(only)
