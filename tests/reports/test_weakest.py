"""The weakest spots of a table: five columns and five groups, the worst first."""

from typing import Any

from evaluate.result import Candidate, Estimate, Evaluation
from reports.sections.weakest import MOST, weakest_of


def grouped(**figures: Any) -> Candidate:
    return Candidate("t", (), figures=figures)


def test_the_worst_columns_come_first_with_what_is_beyond_noise(evaluation: Evaluation) -> None:
    first = evaluation.candidates[0]
    by_hand = sorted((f["tvd"] for f in first.figures["columns"]), reverse=True)[:MOST]
    columns = weakest_of(first).columns
    assert [one.tvd for one in columns] == by_hand
    assert [one.excess for one in columns] == [None] * MOST
    excess = Estimate("columns.tvd.excess", 0.3, 9, "lower", (columns[1].column,), low=0.2, high=0.4)
    again = weakest_of(Candidate("t", (excess,), figures=first.figures)).columns
    assert [one.excess for one in again] == [None, excess, None, None, None]


def test_groups_of_every_source_are_ordered_by_what_is_sure() -> None:
    table = grouped(
        fairness_columns=[
            {"column": "sex", "groups": [{"group": "f", "excess": 0.2, "few": False}, {"group": "m", "few": True}]}
        ],
        fairness_models=[
            {
                "column": "sex",
                "levels": (),
                "groups": [{"group": "m", "few": False, "boosting": {"gap": 0.4, "low": 0.1, "high": 0.7}}],
            }
        ],
    )
    found = [(one.group, one.anchor, round(one.value, 6)) for one in weakest_of(table).groups]
    assert found == [
        ("sex: f", "utility", 0.2),
        ("sex: m", "utility", 0.4),
    ]


def test_no_more_than_five_of_either_and_none_of_nothing() -> None:
    unlike = [{"group": f"g{i}", "excess": i / 100, "few": False} for i in range(9)]
    groups = weakest_of(grouped(fairness_columns=[{"column": "a", "groups": unlike}])).groups
    assert [one.group for one in groups] == ["a: g8", "a: g7", "a: g6", "a: g5", "a: g4"]
    empty = weakest_of(Candidate("t", ()))
    assert (empty.columns, empty.groups) == ((), ())
