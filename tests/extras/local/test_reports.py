"""Reports as files: what is written is read back, no line points to a row, and damage is refused without a value."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from synth.errors import TableError
from synth.schema.kinds import IdentifierColumn
from tests.extras.local.test_survey import people, schema_of
from understudy.extras.local.oracles import DirectEncoding
from understudy.extras.local.reports import HEADER, LINES, ReportCounts, collect, write
from understudy.extras.local.survey import Survey

N = 240


def written(folder: Path, epsilon: float = 2.0, n_answers: int = 2) -> Survey:
    """Reports of both mechanisms."""
    survey = Survey.of(schema_of(N), epsilon, pairs="all", n_answers=n_answers)
    assert len({question.oracle.mechanism for question in survey.questions}) == 2
    folder.mkdir()
    write(people(N), survey, folder)
    return survey


def test_what_is_written_is_read_back_without_a_table(tmp_path: Path) -> None:
    asked, counts = written(tmp_path / "reports"), collect(tmp_path / "reports")
    assert (counts.survey.schema, counts.survey.questions, counts.n) == (asked.schema, asked.questions, N)
    lines = pd.read_csv(tmp_path / "reports" / LINES, dtype=str)
    assert len(lines) == sum(counts.n_each) == 2 * N
    for number, (question, support) in enumerate(zip(asked.questions, counts.supports, strict=True)):
        answers, k = lines["answer"][lines["question"] == str(number)], question.oracle.n_cells
        assert len(answers) == counts.n_each[number]
        if isinstance(question.oracle, DirectEncoding):
            expected = [int((answers == str(cell)).sum()) for cell in range(k)]
        else:
            expected = [sum(f"{int(bits, 16):0{4 * len(bits)}b}"[cell] == "1" for bits in answers) for cell in range(k)]
        assert support.tolist() == expected


def test_the_header_says_how_every_answer_was_randomized(tmp_path: Path) -> None:
    written(tmp_path / "reports")
    header = json.loads((tmp_path / "reports" / HEADER).read_text())
    assert (header["epsilon"], header["delta"], header["answers_each"]) == (2.0, 0.0, 2)
    assert [one["epsilon"] for one in header["questions"]] == [1.0] * 6
    for one in header["questions"]:
        ratio = one["p"] / one["q"] if one["mechanism"].startswith("gen") else (1 - one["q"]) / one["q"]
        assert np.e - 1e-6 < ratio <= np.e + 1e-12


def test_one_who_has_many_rows_sends_one_report() -> None:
    # Else 500 rows of one person would be 500 reports under the epsilon of one.
    rows = people(N)
    rows = pd.concat([rows, *[rows.head(1)] * 500], ignore_index=True)
    rows["who"] = np.r_[np.arange(N), np.zeros(500, dtype=int)].astype(str)
    schema = schema_of(N)
    columns = {**schema.columns, "who": IdentifierColumn(template="P-######")}
    schema = schema.model_copy(update={"columns": columns, "entity": "who", "max_rows_per_unit": 1})
    counts = ReportCounts.of(rows, Survey.of(schema, 2.0, pairs="none", n_answers=1))
    assert counts.n == N == sum(counts.n_each)


@pytest.mark.statistical
def test_no_line_stands_where_its_row_stood(tmp_path: Path) -> None:
    """Rows that are sorted, and hardly randomized: lines in the table's order would be sorted, too."""
    n = 2_000
    frame = people(n).sort_values("job", ignore_index=True)
    survey = Survey.of(schema_of(n), 30.0, pairs="none", n_answers=1)
    for repeat in range(3):
        folder = tmp_path / str(repeat)
        folder.mkdir()
        write(frame, survey, folder)
        lines = pd.read_csv(folder / LINES)
        asked = lines.index[lines["question"] == 2].to_numpy()
        correlation = np.corrcoef(asked, lines.loc[asked, "answer"].astype(int))[0, 1]
        assert abs(correlation) < 4.5 / np.sqrt(len(asked))
        # Nor do questions stand in the order in which they were dealt.
        turns = np.corrcoef(lines.index, lines["question"])[0, 1]
        assert abs(turns) < 4.5 / np.sqrt(n)


def _line(folder: Path, change: Callable[[list[str]], list[str]]) -> None:
    lines = (folder / LINES).read_text().splitlines()
    (folder / LINES).write_text("\n".join([lines[0], *change(lines[1:])]) + "\n")


def _head(folder: Path, **change: object) -> None:
    header = json.loads((folder / HEADER).read_text())
    (folder / HEADER).write_text(json.dumps({**header, **change}))


def _question(folder: Path, **change: object) -> None:
    header = json.loads((folder / HEADER).read_text())
    header["questions"][0].update(change)
    (folder / HEADER).write_text(json.dumps(header))


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "an answer sent twice": (lambda folder: _line(folder, lambda lines: [*lines, lines[0]]), "more lines"),
    "an answer left out": (lambda folder: _line(folder, lambda lines: lines[1:]), "or fewer"),
    "a question that there is not": (lambda folder: _line(folder, lambda lines: ["9,1", *lines[1:]]), "or fewer"),
    "an answer that there is not": (lambda folder: _line(folder, lambda lines: ["1,4", *lines[1:]]), "answer"),
    "a text": (lambda folder: _line(folder, lambda lines: ["1,secret", *lines[1:]]), "cannot be read"),
    "too few bits": (lambda folder: _line(folder, lambda lines: ["0,ff", *lines[1:]]), "cannot be read"),
    "a third cell": (lambda folder: _line(folder, lambda lines: ["1,1,1", *lines[1:]]), "no sound reports"),
    "no lines": (lambda folder: (folder / LINES).unlink(), "cannot be read"),
    "no header": (lambda folder: (folder / HEADER).unlink(), "no sound reports"),
    "a header that is no JSON": (lambda folder: (folder / HEADER).write_text("{"), "no sound reports"),
    "a larger epsilon": (lambda folder: _head(folder, epsilon=4.0), "something else"),
    "a delta": (lambda folder: _head(folder, delta=1e-6), "something else"),
    "a probability": (lambda folder: _question(folder, p=0.9), "something else"),
    "an unknown key": (lambda folder: _head(folder, seed=1), "something else"),
    "more respondents": (lambda folder: _head(folder, n_respondents=N + 1), "or fewer"),
}


@pytest.mark.parametrize(("damage", "said"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_reports_are_refused(damage: Callable[[Path], object], said: str, tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    written(folder)
    damage(folder)
    with pytest.raises(TableError, match=said) as refused:
        collect(folder)
    assert "secret" not in str(refused.value)
