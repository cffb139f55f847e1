"""The report as data: what is said first, what is drawn, what is admitted."""

from collections.abc import Callable
from dataclasses import replace

from evaluate.gate.verdict import Verdict
from evaluate.metrics import CATALOG
from evaluate.result import Candidate, Evaluation
from reports import compose, render_html
from reports.sections.fidelity import MARKED, MOST_COLUMNS, associations, column_rows
from reports.sections.limitations import limits_of, twins

Verdicts = Callable[..., tuple[Verdict, ...]]


def test_every_measure_that_a_policy_may_name_is_explained() -> None:
    assert all(metric.title and metric.sentence for metric in CATALOG.values())


def test_the_worst_column_comes_first(evaluation: Evaluation) -> None:
    rows = compose(evaluation).columns
    assert [row.order for row in rows] == sorted((row.order for row in rows), reverse=True)
    assert all(row.order >= row.worst for row in rows)
    assert all(len(row.figures) == len(evaluation.candidates) for row in rows)


def test_charts_of_one_column_share_a_scale_that_holds_all_of_them(evaluation: Evaluation) -> None:
    for row in compose(evaluation).columns:
        for figure in row.figures:
            assert figure is not None
            assert max(*figure["train"], *figure["synthetic"]) <= row.top


def test_wide_tables_draw_the_columns_that_are_most_wrong() -> None:
    d = 40
    real = [[0.0] * d for _ in range(d)]
    wrong = [[0.5 if {i, j} == {3, 37} else 0.01 for j in range(d)] for i in range(d)]
    figure = {"columns": [f"c{i}" for i in range(d)], "train": real, "synthetic": wrong, "kinds": []}
    found = associations(Candidate("c", (), figures={"associations": figure}))
    assert found is not None
    assert len(found.columns) == MOST_COLUMNS
    assert {"c3", "c37"} <= set(found.columns)
    assert found.left_out == d - MOST_COLUMNS


def test_a_missing_association_stays_missing_in_the_difference() -> None:
    figure = {"columns": ["a", "b"], "train": [[None, None], [None, None]], "synthetic": [[None, 0.5], [0.5, None]]}
    found = associations(Candidate("c", (), figures={"associations": figure}))
    assert found is not None
    assert found.difference == ((None, None), (None, None))


def test_twins_are_explained_where_fresh_rows_equal_training_rows(evaluation: Evaluation) -> None:
    assert "2.0% of fresh real rows" in twins(evaluation)[0]
    assert "2.3% of the rows have a twin" in twins(evaluation)[0]
    assert twins(replace(evaluation, candidates=())) == ()


def test_the_power_of_the_attack_is_stated_and_its_absence_too() -> None:
    figure = {"fpr": [0.1], "tpr": [0.1], "auc": 0.5, "n_members": 500, "n_controls": 500, "floor_fpr": 0.002}
    weak = limits_of(Candidate("c", (), figures={"membership": figure})).power
    assert "above 0.551" in weak[0]
    assert "1,000 outsiders" in weak[1]
    assert "No membership attack" in limits_of(Candidate("c", ())).power[0]


def test_what_is_admitted_of_all_tables_is_said_once(evaluation: Evaluation) -> None:
    shared = compose(evaluation).shared_limits
    assert any("the membership attack would have seen" in sentence for sentence in shared)
    page = render_html(evaluation)
    assert page.count(shared[0]) == 1


def test_the_table_named_for_release_comes_first_where_verdicts_are_read(evaluation: Evaluation) -> None:
    document = compose(evaluation, release="sdv.tvae")
    assert [section.candidate.name for section in document.by_weight] == ["sdv.tvae", "mst", "sdv.gaussian_copula"]
    assert [section.index for section in document.sections] == [1, 2, 3]


def test_a_worst_column_leads_to_its_chart(evaluation: Evaluation) -> None:
    document = compose(evaluation)
    page = render_html(evaluation)
    for section in document.sections:
        for column in section.weakest.columns:
            anchor = document.column_anchors[column.column]
            assert f'href="#{anchor}"' in page
            assert f'id="{anchor}"' in page


def test_words_beside_a_column_rest_on_its_numbers() -> None:
    shares = {"labels": ["1", "other", "missing"], "edges": [0.0, 1.0], "train": [1.0, 0, 0], "synthetic": [1.0, 0, 0]}
    drawn = {"tail": 0.02, "mean": -0.31, "std": 2.5, "spikes": 0.4, "steps": 0.5, "lattice": "multiples of 10"}
    drawn["off"] = ["tail", "std"]
    figure = {"column": "x", "kind": "real", "tvd": 0.0, **shares, "descriptives": drawn}
    (row,) = column_rows([Candidate("c", (), figures={"columns": [figure]})])
    assert [(detail.words, detail.marked) for detail in row.details[0]] == [
        ("tails +2.0%", True), ("mean \u22120.31 SD", False), ("SD \u00d7 2.5", True),
        ("frequent values 40% kept", False), ("multiples of 10 50% kept", False),
    ]  # fmt: skip
    assert row.order == MARKED
