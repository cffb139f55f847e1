"""Reports of a survey, counted and estimated; and their files.

A folder holds `survey.json` and `reports.csv`. The header has the schema, epsilon, how many answers each respondent
gives, and of every question the columns, the mechanism and its probabilities. A line is `question,answer`: the number
of the question, and a symbol, or bits in hexadecimal, the first answer's bit first.

**No order links a line to a row.** Rows are put into a random order before questions are dealt, and lines into another
one before they are written; neither order is kept. The answers of one respondent stand on lines of their own, with
nothing in common.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from synth.dp.budget import Budget
from synth.dp.mechanisms import Words, system_words
from synth.dp.schedule import require_declared
from synth.errors import TableError, UnderstudyError
from synth.marginals import Measurement
from synth.schema import build_schema
from synth.validation import plain_json
from understudy.extras.local.oracles import DirectEncoding, Oracle
from understudy.extras.local.survey import QUANTILE, Survey

HEADER, LINES = "survey.json", "reports.csv"
LINES_AT_ONCE = 500_000


@dataclass(frozen=True, eq=False)
class ReportCounts:
    survey: Survey
    supports: tuple[np.ndarray, ...]  # for each question how many reports support each answer, shape (n_cells,)
    n_each: tuple[int, ...]
    n: int

    @classmethod
    def of(cls, table: Any, survey: Survey, budget: Budget | None = None) -> Self:
        """The reports of the respondents of a table, randomized and counted; nothing but these leaves. With a budget,
        by its noise and from as many slots as are declared; else by the system's, from as many as there are rows.
        `table`: *Sensitive*.
        """
        cells, n = survey.asked(table, None if budget is None else require_declared(survey.schema))
        asked = [(each, question.oracle) for each, question in zip(cells, survey.questions, strict=True)]
        own = (oracle.support(each) for each, oracle in asked)
        supports = own if budget is None else budget.respond(asked, survey.event)
        return cls(survey, tuple(supports), tuple(map(len, cells)), n)

    def shares(self, question: int) -> np.ndarray:
        """The share of respondents with each answer, without bias: some may lie outside [0, 1]; shape (n_cells,)."""
        n_reports, oracle = self.n_each[question], self.survey.questions[question].oracle
        return oracle.counts(self.supports[question], n_reports) / max(n_reports, 1)

    def deviations(self, question: int, shares: np.ndarray | None = None) -> np.ndarray:
        """Standard deviation of each estimated share about that of all respondents, by the noise of the reports and by
        who was asked; shape (n_cells,). `shares`: true ones; `None`: the estimated ones.
        """
        n_reports = max(self.n_each[question], 1)
        known = np.clip(self.shares(question) if shares is None else shares, 0.0, 1.0)
        noise = self.survey.questions[question].oracle.variance(known, n_reports)
        asked = known * (1 - known) / n_reports * max(self.n - n_reports, 0) / max(self.n - 1, 1)
        return np.asarray(np.sqrt(noise + asked))

    def intervals(self, question: int) -> tuple[np.ndarray, np.ndarray]:
        """Ends of normal 95% intervals of the shares of all respondents; each of shape (n_cells,)."""
        shares, width = self.shares(question), QUANTILE * self.deviations(question)
        return shares - width, shares + width

    def measurements(self) -> list[Measurement]:
        """Each question as counts of respondents.

        DEVIATES: answers differ in their variance, since that of generalized randomized response grows with the share.
        A measurement takes the root of the mean over all answers.
        """
        measured = []
        for number, question in enumerate(self.survey.questions):
            sigma = self.n * float(np.sqrt(np.mean(self.deviations(number) ** 2)))
            measured.append(Measurement(question.columns, self.n * self.shares(number).reshape(question.sizes), sigma))
        return measured


def write(table: Any, survey: Survey, folder: Path, words: Words = system_words) -> None:
    """Header and lines of the respondents of a table, into a folder that is there, and empty. `table`: *Sensitive*."""
    answers, n = survey.asked(table)
    (folder / HEADER).write_text(json.dumps(_header(survey, n), indent=1) + "\n", encoding="utf-8")
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
    """The reports of a folder, counted; no table is needed. Questions are planned anew from the schema."""
    try:
        content: Any = plain_json((folder / HEADER).read_bytes())
        pairs = tuple(tuple(each["columns"]) for each in content["questions"] if len(each["columns"]) > 1)
        survey = Survey.of(
            build_schema(content["table_schema"]), content["epsilon"],
            pairs=pairs, n_bins=content["n_bins"], n_answers=content["answers_each"],
        )  # fmt: skip
        n = int(content["n_respondents"])
        if content != _header(survey, n):
            raise TableError("the header says something else than its schema and epsilon give")
        supports = [np.zeros(question.oracle.n_cells, dtype=np.int64) for question in survey.questions]
        n_each = [0] * len(supports)
        with pd.read_csv(
            folder / LINES, dtype={"answer": str}, keep_default_na=False, chunksize=LINES_AT_ONCE
        ) as parts:
            for lines in parts:
                for number, oracle in enumerate(question.oracle for question in survey.questions):
                    texts = lines["answer"].to_numpy()[lines["question"].to_numpy() == number]
                    n_each[number] += len(texts)
                    for part in oracle.chunks(texts):
                        supports[number] += oracle.supported(_parsed(oracle, part))
        if sum(n_each) != n * survey.n_answers:
            raise TableError("there are more lines, or fewer, than its respondents send")
    except (OSError, ValueError, TypeError, LookupError) as error:
        # What pandas or numpy say may hold a cell.
        why = error if isinstance(error, UnderstudyError) else f"they cannot be read ({type(error).__name__})"
        raise TableError(f"path={str(folder)!r} holds no sound reports: {why}; write them anew") from None
    return ReportCounts(survey, tuple(supports), tuple(n_each), n)


def _header(survey: Survey, n: int) -> dict[str, Any]:
    return {
        "format": 1, "epsilon": survey.epsilon, "delta": 0.0, "n_respondents": n,
        "answers_each": survey.n_answers, "n_bins": survey.n_bins,
        "questions": [
            {"columns": list(question.columns), "sizes": list(question.sizes), "mechanism": question.oracle.mechanism,
             "epsilon": question.oracle.epsilon, "p": question.oracle.p, "q": question.oracle.q}
            for question in survey.questions
        ],
        "table_schema": survey.schema.model_dump(mode="json"),
    }  # fmt: skip


def _parsed(oracle: Oracle, texts: np.ndarray) -> np.ndarray:
    if isinstance(oracle, DirectEncoding):
        symbols = texts.astype(np.int64)
        if symbols.max() >= oracle.n_symbols:
            raise TableError("an answer is none of its question")
        return symbols
    packed = np.frombuffer(bytes.fromhex("".join(texts)), dtype=np.uint8).reshape(len(texts), -1)
    return np.unpackbits(packed, axis=1, count=oracle.n_cells)
