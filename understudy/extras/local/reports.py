"""Reports as files: a header that says how they were made, and one line for each answer, in a random order.

A folder holds `survey.json` and `reports.csv`. The header has the schema, epsilon, how many answers each respondent
gives, and of every question the columns, the mechanism and its probabilities. A line is `question,answer`: the number
of the question, and a symbol, or bits in hexadecimal, the first answer's bit first.

**No order links a line to a row.** Rows are put into a random order before questions are dealt, and lines into another
one before they are written; neither order is kept. The answers of one respondent stand on lines of their own, with
nothing in common: the estimation needs no link between them, and none that is not there can be followed.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from synth.dp.mechanisms import Words, system_words
from synth.errors import TableError, UnderstudyError
from synth.parsing import plain_json
from synth.schema import build_schema
from understudy.extras.local.estimation import ReportCounts
from understudy.extras.local.oracles import DirectEncoding, Oracle
from understudy.extras.local.survey import Survey

HEADER, LINES = "survey.json", "reports.csv"
COLUMNS = ["question", "answer"]
LINES_AT_ONCE = 500_000


def write(table: Any, survey: Survey, folder: Path, words: Words = system_words) -> None:
    """Header and lines of the respondents of a table, into a folder that is there, and empty. `table`: *Sensitive*."""
    answers, n = survey.asked(table)
    content = json.dumps(_header(survey, n), indent=1)
    (folder / HEADER).write_text(content + "\n", encoding="utf-8")
    texts: list[str] = []
    for question, cells in zip(survey.questions, answers, strict=True):
        for part in question.oracle.chunks(cells):
            reports = question.oracle.randomize(part, words)
            direct = isinstance(question.oracle, DirectEncoding)
            texts += map(str, reports) if direct else (row.tobytes().hex() for row in np.packbits(reports, axis=1))
    numbers = np.repeat(np.arange(len(answers)), [len(cells) for cells in answers])
    order = np.argsort(words(len(numbers), np.uint64), kind="stable")
    lines = {"question": numbers[order], "answer": np.array(texts, dtype=object)[order]}
    pd.DataFrame(lines).to_csv(folder / LINES, index=False)


def collect(folder: Path) -> ReportCounts:
    """The reports of a folder, counted; no table is needed."""
    survey, n = read_survey(folder)
    supports = [np.zeros(question.oracle.n_cells, dtype=np.int64) for question in survey.questions]
    n_each = np.zeros(len(supports), dtype=np.int64)
    try:
        with pd.read_csv(folder / LINES, dtype=str, keep_default_na=False, chunksize=LINES_AT_ONCE) as parts:
            for part in parts:
                if list(part.columns) != COLUMNS or not part["question"].str.fullmatch("[0-9]{1,9}").all():
                    raise ValueError("a line is not question,answer")
                numbers = part["question"].to_numpy(dtype=np.int64)
                if len(part) and numbers.max() >= len(supports):
                    raise ValueError("a line names a question that there is not")
                for number in np.unique(numbers):
                    oracle, texts = survey.questions[number].oracle, part["answer"].to_numpy()[numbers == number]
                    n_each[number] += len(texts)
                    supports[number] += _supported(oracle, _parsed(oracle, texts))
        if int(n_each.sum()) != n * survey.n_answers:
            raise ValueError("there are more lines, or fewer, than its respondents send")
    except (OSError, ValueError) as error:
        # What pandas or numpy say may hold a cell.
        why = error if type(error) is ValueError else f"it cannot be read ({type(error).__name__})"
        raise TableError(f"path={str(folder / LINES)!r}: the reports are damaged: {why}; write them anew") from None
    return ReportCounts(survey, tuple(supports), tuple(n_each.tolist()), n)


def read_survey(folder: Path) -> tuple[Survey, int]:
    """The survey that a folder of reports is of, and the number of its respondents.

    The questions are planned anew from the schema, and must come out as the header says.
    """
    path = f"path={str(folder)!r}"
    try:
        content: Any = plain_json((folder / HEADER).read_bytes())
        pairs = tuple(tuple(each["columns"]) for each in content["questions"] if len(each["columns"]) > 1)
        n, schema = int(content["n_respondents"]), build_schema(content["table_schema"])
        settings = {"pairs": pairs, "n_bins": content["n_bins"], "n_answers": content["answers_each"]}
        survey = Survey.of(schema, content["epsilon"], **settings)
    except OSError as refusal:
        raise TableError(
            f"{path} holds no reports ({refusal.strerror}); pass a folder of `understudy randomize`"
        ) from None
    except UnderstudyError as error:
        raise TableError(f"{path}: the header of these reports is damaged: {error}") from None
    except (ValueError, TypeError, LookupError, RecursionError):
        raise TableError(f"{path}: the header of these reports is damaged; write them anew") from None
    if content != _header(survey, n):
        raise TableError(f"{path}: the header says something else than its schema and epsilon give; write them anew")
    return survey, n


def _header(survey: Survey, n: int) -> dict[str, Any]:
    return {
        "format": 1,
        "epsilon": survey.epsilon,
        "delta": 0.0,
        "n_respondents": n,
        "answers_each": survey.n_answers,
        "n_bins": survey.n_bins,
        "questions": [
            {"columns": list(question.columns), "sizes": list(question.sizes), "mechanism": question.oracle.mechanism,
             "epsilon": question.oracle.epsilon, "p": question.oracle.p, "q": question.oracle.q}
            for question in survey.questions
        ],
        "table_schema": survey.schema.model_dump(mode="json"),
    }  # fmt: skip


def _supported(oracle: Oracle, answers: np.ndarray) -> np.ndarray:
    parts = oracle.chunks(answers)
    bits = (np.unpackbits(part, axis=1, count=oracle.n_cells) if part.ndim > 1 else part for part in parts)
    return sum(map(oracle.supported, bits), np.zeros(oracle.n_cells, dtype=np.int64))


def _parsed(oracle: Oracle, texts: np.ndarray) -> np.ndarray:
    """Answers from texts: symbols, or packed bits."""
    if isinstance(oracle, DirectEncoding):
        if all(text.isascii() and text.isdigit() and len(text) < 10 for text in texts):
            symbols = np.array([int(text) for text in texts], dtype=np.int64)
            if not len(symbols) or symbols.max() < oracle.n_symbols:
                return symbols
    else:
        width = (oracle.n_cells + 7) // 8
        if all(len(text) == 2 * width and not set(text) - set("0123456789abcdef") for text in texts):
            packed = np.frombuffer(bytes.fromhex("".join(texts)), dtype=np.uint8).reshape(len(texts), width)
            if not np.unpackbits(packed, axis=1)[:, oracle.n_cells :].any():
                return packed
    raise ValueError("an answer is none of its question")
