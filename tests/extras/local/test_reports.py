"""Reports as files: what is written is read back, no line points to a row, and damage is refused without a value."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from synth.errors import TableError
from tests.extras.local.test_survey import people, schema_of
from understudy.extras.local.oracles import DirectEncoding
from understudy.extras.local.survey import HEADER, LINES, Survey, collect, write

N = 240


def written(folder: Path, epsilon: float = 2.0, n_answers: int = 2) -> Survey:
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


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "an answer sent twice": (lambda folder: _line(folder, lambda lines: [*lines, lines[0]]), "more lines"),
    "an answer that there is not": (lambda folder: _line(folder, lambda lines: ["1,4", *lines[1:]]), "answer"),
    "a text": (lambda folder: _line(folder, lambda lines: ["1,secret", *lines[1:]]), "cannot be read"),
    "a larger epsilon": (lambda folder: _head(folder, epsilon=4.0), "something else"),
}


@pytest.mark.parametrize(("damage", "words"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_reports_are_refused(damage: Callable[[Path], object], words: str, tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    written(folder)
    damage(folder)
    with pytest.raises(TableError, match=words) as refused:
        collect(folder)
    assert "secret" not in str(refused.value)
