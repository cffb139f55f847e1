"""Reports as files: a header that says how they were made, and one line for each answer, in a random order.

A folder holds `survey.json` and `reports.csv`. The header has the schema, epsilon, how many answers each respondent
gives, and of every question the columns, the mechanism and its probabilities. A line is `question,answer`: the place of
the question, and a symbol, or bits in hexadecimal, the first answer's bit first.

**No order links a line to a row.** Rows are put into a random order before questions are dealt, and lines into another
one before they are written; neither order is kept. The answers of one respondent stand on lines of their own, with
nothing in common: the estimation needs no link between them, and none that is not there can be followed.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from synth.dp.mechanisms import Words, system_words
from synth.errors import TableError, UnderstudyError
from synth.local.estimation import ReportCounts
from synth.local.oracles import DirectEncoding, UnaryEncoding
from synth.local.survey import Pairs, Question, Survey
from synth.parsing import NotPlain, plain_json
from synth.schema import build_schema
from synth.table import conform
from synth.validation import sentence

HEADER, LINES = "survey.json", "reports.csv"
FORMAT = 1
LINES_AT_A_TIME = 500_000
COLUMNS = ["question", "answer"]
_LARGEST_HEADER = 50_000_000


@dataclass(frozen=True, eq=False)
class Reports:
    """The reports of all respondents, by question, each in an order that says nothing.
    `answers`: for each question symbols, shape (n,), or packed bits, shape (n, n_bytes).
    """

    survey: Survey
    answers: tuple[np.ndarray, ...]
    n: int

    @classmethod
    def of(cls, frame: pd.DataFrame, survey: Survey, words: Words = system_words) -> "Reports":
        """The reports of the respondents of a table, one for each row, or for each entity of several rows.
        `frame`: *Sensitive*. A row for each respondent. Of several rows of one entity, one drawn at random counts.
        """
        frame = conform(frame, survey.schema, outside="clamp")  # one name may be spelled in several ways
        order = np.argsort(words(len(frame), np.uint64), kind="stable")
        entity = survey.schema.entity
        if entity is not None:  # one row of each, whichever comes first in an order that says nothing
            whose = frame[entity].iloc[order]
            order = order[(whose.notna() & ~whose.duplicated()).to_numpy()]
        answers = survey.answers(survey.codes(frame), order)
        pairs = zip(survey.questions, answers, strict=True)
        return cls(survey, tuple(_reports(question, cells, words) for question, cells in pairs), len(order))

    def collected(self) -> ReportCounts:
        """The reports, counted."""
        counted = zip(self.survey.questions, self.answers, strict=True)
        supports = tuple(_supported(question, answers) for question, answers in counted)
        return ReportCounts(self.survey, supports, tuple(len(answers) for answers in self.answers), self.n)

    def write(self, folder: Path, words: Words = system_words) -> None:
        """Header and lines into a folder that is there, and empty."""
        content = json.dumps(_header(self.survey, self.n), indent=1)
        (folder / HEADER).write_text(content + "\n", encoding="utf-8")
        lines = np.concatenate([np.full(len(answers), place) for place, answers in enumerate(self.answers)])
        starts = np.cumsum([0, *(len(answers) for answers in self.answers)])
        order = np.argsort(words(len(lines), np.uint64), kind="stable")
        with (folder / LINES).open("w", encoding="ascii") as file:
            file.write(",".join(COLUMNS) + "\n")
            for start in range(0, len(order), LINES_AT_A_TIME):
                part = order[start : start + LINES_AT_A_TIME]
                texts = np.empty(len(part), dtype=object)
                for place in np.unique(lines[part]):
                    here = np.flatnonzero(lines[part] == place)
                    texts[here] = _texts(self.answers[place][part[here] - starts[place]])
                pd.DataFrame({"question": lines[part], "answer": texts}).to_csv(file, index=False, header=False)


def _reports(question: Question, cells: np.ndarray, words: Words) -> np.ndarray:
    oracle = question.oracle
    parts = [oracle.randomize(part, words) for part in oracle.chunks(cells)]
    if isinstance(oracle, DirectEncoding):
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts])
    empty = np.zeros((0, (oracle.n_cells + 7) // 8), dtype=np.uint8)
    return np.concatenate([empty, *(np.packbits(part, axis=1) for part in parts)])


def _supported(question: Question, answers: np.ndarray) -> np.ndarray:
    oracle, total = question.oracle, np.zeros(question.oracle.n_cells, dtype=np.int64)
    for part in oracle.chunks(answers):
        bits = isinstance(oracle, UnaryEncoding)
        total += oracle.supported(np.unpackbits(part, axis=1, count=oracle.n_cells) if bits else part)
    return total


def _texts(answers: np.ndarray) -> list[str]:
    """One text for each answer: a symbol's number, or bits in hexadecimal."""
    if answers.ndim == 1:
        return [str(answer) for answer in answers.tolist()]
    width, text = 2 * answers.shape[1], answers.tobytes().hex()
    return [text[start : start + width] for start in range(0, len(text), width)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class _Marginal(_Strict):
    columns: Annotated[list[str], Field(min_length=1, max_length=2)]
    sizes: list[int]
    mechanism: str
    epsilon: float
    p: float
    q: float


class _Header(_Strict):
    format: Literal[1]
    epsilon: float
    delta: Annotated[float, Field(ge=0, le=0)]
    n_respondents: Annotated[int, Field(ge=1, le=10**12)]
    answers_each: Annotated[int, Field(ge=1)]
    n_bins: Annotated[int, Field(ge=2, le=1000)]
    questions: list[_Marginal]
    table_schema: dict[str, Any]


def _header(survey: Survey, n: int) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "epsilon": survey.epsilon,
        "delta": 0.0,
        "n_respondents": n,
        "answers_each": survey.n_answers,
        "n_bins": survey.n_bins,
        "questions": [
            {
                "columns": list(question.columns),
                "sizes": list(question.sizes),
                "mechanism": question.oracle.mechanism,
                "epsilon": question.oracle.epsilon,
                "p": question.oracle.p,
                "q": question.oracle.q,
            }
            for question in survey.questions
        ],
        "table_schema": survey.schema.model_dump(mode="json"),
    }


def read_survey(folder: Path) -> tuple[Survey, int]:
    """The survey that a folder of reports is of, and the number of its respondents.

    The questions are planned anew from the schema, and must come out as the header says.
    """
    place = f"path={str(folder)!r}"
    try:
        if (folder / HEADER).stat().st_size > _LARGEST_HEADER:
            raise TableError(f"{place}: the header of these reports is too large; write them anew")
        content = plain_json((folder / HEADER).read_bytes())
        header = _Header.model_validate(content)
        pairs: Pairs = tuple((one.columns[0], one.columns[1]) for one in header.questions if len(one.columns) > 1)
        schema = build_schema(header.table_schema)
        survey = Survey.of(schema, header.epsilon, pairs=pairs, n_bins=header.n_bins, n_answers=header.answers_each)
    except OSError as refusal:
        raise TableError(
            f"{place} holds no reports ({refusal.strerror}); pass a folder of `understudy randomize`"
        ) from None
    except ValidationError as error:
        raise TableError(f"{place}: the header of these reports is damaged: {sentence(error, _Header)}") from None
    except NotPlain as fault:
        raise TableError(f"{place}: the header of these reports is damaged ({fault}); write them anew") from None
    except UnderstudyError as error:
        raise TableError(f"{place}: the header of these reports is damaged: {error}") from None
    except (ValueError, TypeError, RecursionError):
        raise TableError(f"{place}: the header of these reports is damaged; write them anew") from None
    if _header(survey, header.n_respondents)["questions"] != content["questions"]:
        raise TableError(f"{place}: the header names other questions or mechanisms than its schema and epsilon give")
    return survey, header.n_respondents


def collect(folder: Path) -> ReportCounts:
    """The reports of a folder, counted; no table is needed."""
    survey, n = read_survey(folder)
    supports = [np.zeros(question.oracle.n_cells, dtype=np.int64) for question in survey.questions]
    n_each = np.zeros(len(supports), dtype=np.int64)
    for questions, answers in _lines(folder):
        if len(questions) and not 0 <= questions.min() <= questions.max() < len(supports):
            raise _damaged(folder, "a line names a question that there is not")
        for place in np.unique(questions):
            here = answers[questions == place]
            n_each[place] += len(here)
            supports[place] += _supported(survey.questions[place], _read(folder, survey.questions[place], here))
    if int(n_each.sum()) != n * survey.n_answers:
        raise _damaged(folder, "there are more lines, or fewer, than its respondents send")
    return ReportCounts(survey, tuple(supports), tuple(n_each.tolist()), n)


def _damaged(folder: Path, why: str) -> TableError:
    return TableError(f"path={str(folder / LINES)!r}: the reports are damaged: {why}; write them anew")


def _lines(folder: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The lines of a file in pieces: places of questions, int64, and answers as texts."""
    try:
        with pd.read_csv(
            folder / LINES, dtype=str, keep_default_na=False, chunksize=LINES_AT_A_TIME, encoding="ascii"
        ) as parts:
            yield from (_places_and_answers(folder, part) for part in parts)
    except TableError:
        raise
    except (OSError, ValueError) as error:
        raise _damaged(folder, f"it cannot be read ({type(error).__name__})") from None


def _places_and_answers(folder: Path, part: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    if list(part.columns) != COLUMNS or not part["question"].str.fullmatch(r"[0-9]{1,9}").all():
        raise _damaged(folder, f"a line is not {','.join(COLUMNS)}")
    return part["question"].to_numpy(dtype=np.int64), part["answer"].to_numpy(dtype=object)


def _read(folder: Path, question: Question, texts: np.ndarray) -> np.ndarray:
    """Answers from texts: symbols, or packed bits."""
    oracle, fault = question.oracle, _damaged(folder, "an answer is none of its question")
    if isinstance(oracle, DirectEncoding):
        if not all(text.isascii() and text.isdigit() and len(text) < 10 for text in texts):
            raise fault
        symbols = np.array([int(text) for text in texts], dtype=np.int64)
        if len(symbols) and symbols.max() >= oracle.n_symbols:
            raise fault
        return symbols
    width = (oracle.n_cells + 7) // 8
    if not all(len(text) == 2 * width for text in texts):
        raise fault
    try:
        packed = np.frombuffer(bytes.fromhex("".join(texts)), dtype=np.uint8).reshape(len(texts), width)
    except ValueError:
        raise fault from None
    if np.unpackbits(packed, axis=1)[:, oracle.n_cells :].any():
        raise fault
    return packed
