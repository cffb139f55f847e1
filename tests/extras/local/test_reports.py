"""Reports as files: what is written is read back, no line points to a row, and whatever arrives is counted or told."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from synth.errors import TableError
from tests.extras.local.test_survey import COLUMNS, people, schema_of
from understudy.extras.local.generator import Local
from understudy.extras.local.oracles import DirectEncoding
from understudy.extras.local.survey import (
    AGAIN,
    CONTRADICTION,
    NO_REPORT,
    NO_SUCH_ANSWER,
    OTHER_SURVEY,
    ReportCounts,
    Survey,
    collect,
    write,
)

N = 240


@pytest.fixture
def survey() -> Survey:
    asked = Survey.of(schema_of(N), 2.0, pairs="all", n_answers=2)
    assert len({question.oracle.mechanism for question in asked.questions}) == 2
    return asked


def sent(n: int, survey: Survey) -> list[dict[str, Any]]:
    rows = people(n).astype(object).to_dict("records")
    return [json.loads(json.dumps(survey.randomize(row))) for row in rows]  # type: ignore[arg-type]


def same(counts: ReportCounts, other: ReportCounts) -> bool:
    supports = (np.array_equal(a, b) for a, b in zip(counts.supports, other.supports, strict=True))
    return all(supports) and (counts.n, counts.n_each) == (other.n, other.n_each)


def test_what_is_written_is_read_back_without_a_table(survey: Survey, tmp_path: Path) -> None:
    write(people(N), survey, tmp_path / "reports.jsonl")
    counts, left_out = collect(tmp_path / "reports.jsonl", survey)
    assert (counts.n, sum(counts.n_each), left_out) == (N, 2 * N, {})
    lines = [json.loads(line)["answers"] for line in (tmp_path / "reports.jsonl").read_text().splitlines()]
    for number, (question, support) in enumerate(zip(survey.questions, counts.supports, strict=True)):
        answers, k = [each[str(number)] for each in lines if str(number) in each], question.oracle.n_cells
        assert len(answers) == counts.n_each[number]
        if isinstance(question.oracle, DirectEncoding):
            expected = [answers.count(cell) for cell in range(k)]
        else:
            expected = [sum(f"{int(bits, 16):0{4 * len(bits)}b}"[cell] == "1" for bits in answers) for cell in range(k)]
        assert support.tolist() == expected


@pytest.mark.statistical
def test_no_line_stands_where_its_row_stood(tmp_path: Path) -> None:
    """Rows that are sorted, and hardly randomized: lines in the table's order would be sorted, too."""
    n, survey = 2_000, Survey.of(schema_of(2_000), 30.0, pairs="none", n_answers=1)
    for repeat in range(3):
        write(people(n).sort_values("job", ignore_index=True), survey, tmp_path / f"{repeat}")
        lines = [json.loads(line)["answers"] for line in (tmp_path / f"{repeat}").read_text().splitlines()]
        asked = [(place, line["2"]) for place, line in enumerate(lines) if "2" in line]
        assert abs(np.corrcoef(np.array(asked).T)[0, 1]) < 4.5 / np.sqrt(len(asked))


def test_reports_in_any_order_doubled_late_and_in_any_files_count_once(survey: Survey, tmp_path: Path) -> None:
    reports, rng = sent(40, survey), np.random.default_rng(0)
    write_lines(tmp_path / "all", reports)
    plain, _ = collect(tmp_path / "all", survey)
    folder = tmp_path / "folder" / "late"
    folder.mkdir(parents=True)
    (folder / ".hidden").write_text("no report")
    (folder / ".git").mkdir()
    (folder / ".git" / "late").write_text("no report")
    (folder / "one.json").write_text("\ufeff" + json.dumps(reports[0], indent=4))
    doubled = [*reports[1:], *reports[:9]]
    write_lines(folder.parent / "rest.txt", [doubled[i] for i in rng.permutation(len(doubled))])
    counts, left_out = collect(tmp_path / "folder", survey)
    assert same(counts, plain) and counts.n == 40
    assert left_out == {AGAIN: 9}


def test_of_a_respondent_whose_reports_contradict_each_other_none_counts(survey: Survey, tmp_path: Path) -> None:
    reports = sent(30, survey)
    first = reports[0]
    other = {**reports[1], "respondent": first["respondent"]}
    write_lines(tmp_path / "without", reports[1:])
    expected, _ = collect(tmp_path / "without", survey)
    for order in ([first, other, first], [other, first, first]):
        write_lines(tmp_path / "with", [*order, *reports[1:]])
        counts, left_out = collect(tmp_path / "with", survey)
        assert same(counts, expected)
        assert left_out == {CONTRADICTION: 3}


def test_a_respondent_needs_no_name_and_no_answer_may_be_forgotten() -> None:
    columns = {"who": {"kind": "identifier", "bounds": [0, 99]}, "note": {"kind": "text"}, **COLUMNS}
    survey = Survey.of(schema_of(N, entity="who", columns=columns), 2.0, pairs="none")
    report = survey.randomize({"age": 41, "sex": None, "job": "cook"})
    assert isinstance(survey.read(json.loads(json.dumps(report))), tuple)
    with pytest.raises(TableError, match="job"):
        survey.randomize({"age": 41, "sex": True})


def test_a_question_that_nobody_answered_says_nothing(survey: Survey, tmp_path: Path) -> None:
    write_lines(tmp_path / "one", sent(1, survey))
    counts, _ = collect(tmp_path / "one", survey)
    assert sorted(counts.n_each) == [0, 0, 0, 0, 1, 1]
    assert [each.clique for each in counts.measurements()] == [
        question.columns for question, n in zip(survey.questions, counts.n_each, strict=True) if n
    ]
    for number, n in enumerate(counts.n_each):
        assert np.isnan([counts.shares(number), *counts.intervals(number)]).all() == (n == 0)
    assert len(Local.asking(survey).of_reports(counts).sample(9, seed=0)) == 9


def write_lines(path: Path, reports: list[dict[str, Any]]) -> None:
    path.write_text("\n".join(map(json.dumps, reports)) + "\n\n", encoding="utf-8")


NO_SYMBOL: list[Any] = [-1, 5, 2**62, 1.0, True, None, "1", [], {}]
NO_BITS: list[Any] = [
    0,
    None,
    "",
    "00",
    "g" * 6,
    "F" * 6,
    " " * 6,
    "0" * 8,
    "ffffff",
]  # of 20 there are, the last sets 24
BAD: dict[str, list[Any]] = {
    NO_REPORT: [
        "secret", "[]", "null", "7", "NaN", '{"survey": 1', "{" * 5_000, '{"a": ' * 500, b"\xff\xfe", "\x00",
        "9" * 5_000, "{}", "x" * 3_000_000, '{"survey": 1, "survey": 1, "respondent": 1, "answers": 1}',
        {"respondent": None}, {"respondent": "secret"}, {"respondent": "a" * 33}, {"respondent": "A" * 32},
        {"respondent": ["a" * 32]}, {"answers": None}, {"answers": [1, 2]}, {"sent": "today"},
    ],
    OTHER_SURVEY: [{"survey": "0" * 32}, {"survey": 7}, {"survey": {}}, {"survey": None}],
    NO_SUCH_ANSWER: [
        {"answers": {}}, {"answers": {"1": 1}}, {"answers": {"1": 1, "2": 1, "5": "000000"}},
        {"answers": {"1": 1, "9": 1}}, {"answers": {"1": 1, "02": 1}},
        *({"answers": {"1": 1, "2": bad}} for bad in NO_SYMBOL), *({"answers": {"1": 1, "5": bad}} for bad in NO_BITS),
    ],
}  # fmt: skip


def test_what_is_no_report_of_the_survey_is_left_out_with_a_reason(survey: Survey, tmp_path: Path) -> None:
    reports, path = sent(5, survey), tmp_path / "reports"
    write_lines(path, reports)
    expected, _ = collect(path, survey)
    every = path.read_bytes()
    for reason, each in [(reason, each) for reason, listed in BAD.items() for each in listed]:
        line = json.dumps({**reports[0], **each}) if isinstance(each, dict) else each
        path.write_bytes((line if isinstance(line, bytes) else line.encode()) + b"\n" + every)
        counts, left_out = collect(path, survey)
        assert (same(counts, expected), left_out) == (True, {reason: 1}), line


@pytest.mark.parametrize("change", [{"epsilon": 2.5}, {"n_answers": 3}, {"pairs": "none"}, {"n_bins": 8}])
def test_reports_of_another_survey_are_refused_where_none_is_left(
    survey: Survey, change: dict[str, Any], tmp_path: Path
) -> None:
    other = Survey.of(schema_of(N), **{"epsilon": 2.0, "pairs": "all", "n_answers": 2, **change})
    write_lines(tmp_path / "reports", sent(3, survey))
    with pytest.raises(TableError, match="3 of another survey"):
        collect(tmp_path / "reports", other)
    (tmp_path / "reports").unlink()
    for path, why in ((tmp_path, "nothing is there"), (tmp_path / "absent", "cannot be read")):
        with pytest.raises(TableError, match=why):
            collect(path, survey)
    edges = ([0, 500_000.1, 1e6], [0, 500_000.4, 1e6])  # of the same labels
    columns = [{"x": {"kind": "real", "bounds": [0, 1e6], "bins": bins}} for bins in edges]
    assert len({Survey.of(schema_of(N, columns=each), 2.0, pairs="none").digest for each in columns}) == 2
    # The expected number of respondents and the name of the table say nothing of what a report means.
    assert Survey.of(schema_of(2 * N, dataset="again"), 2.0, pairs="all", n_answers=2).digest == survey.digest
