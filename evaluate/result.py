"""The result of an evaluation: what was measured of each table, facts about the real one, and its provenance."""

import importlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, JsonValue, TypeAdapter

from evaluate.audit_result import Audit
from evaluate.comparison import VendorRanking
from evaluate.estimate import NO_HOLDOUT, UNASKED, Count, Direction, Estimate, EvaluationError, Failure, Reason, Record
from evaluate.metrics import CATALOG, MODULES, is_ours
from evaluate.provenance import Provenance
from evaluate.real_facts import RealFacts
from evaluate.text import number, plain
from synth.dp.statement import NO_GUARANTEE, PrivacyStatement, guarantee_words
from synth.errors import nearest
from synth.progress import WIDTH, html_table, text_table
from synth.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "UNASKED", "Candidate", "Case", "Direction", "Estimate", "Evaluation", "EvaluationError", "Expectation", "Failure",
    "GeneratorRecord", "Reason", "SelfTest",
]  # fmt: skip

SCHEMA_VERSION = 4  # Version of `evaluation.json`; another one is refused

NOTICE = "Internal: this file holds numbers computed from real rows, and may show some, outside any privacy guarantee."

LOOKS = "looks"  # The figure that shows real rows

MOST_SHOWN = 10  # Candidates whose figures are shown at once

Case = str  # of a self-test: one of `CASES`, or one that an extra brings
CASES: tuple[Case, ...] = ("honest", "copy", "some copies", "shuffled", "sorted")


@dataclass(frozen=True)
class GeneratorRecord(Record):
    """The generator of a table."""

    name: str
    """In the registry, or of a vendor."""
    parameters: Mapping[str, JsonValue] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, parameters: Mapping[str, object]) -> "GeneratorRecord":
        """A generator with parameters of any kind, those that JSON does not know as text."""
        return cls(name, json.loads(json.dumps(dict(parameters), default=str)))

    @property
    def settings(self) -> Mapping[str, JsonValue]:
        """Name and parameters together, to be listed."""
        return {"generator": self.name, **self.parameters}


@dataclass(frozen=True)
class Expectation(Record):
    """The error of a private fit that public facts let one expect; `None` where nothing was worked out."""

    column: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Mean total variation of a column beyond that of a fresh real sample."""
    tree: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    pair: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    n_rows: Count | None = None
    """Training rows that this rests on."""


@dataclass(frozen=True, repr=False)
class Candidate(Record):
    """The evaluation of one synthetic table."""

    name: str
    """What the job or the user calls it."""
    estimates: tuple[Estimate, ...]
    """Every number measured."""
    failures: tuple[Failure, ...] = ()
    """Every measure that gave none."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """To draw, by name; plain JSON data."""
    statement: PrivacyStatement | None = None
    """The privacy statement; `None`: no formal guarantee."""
    generator: GeneratorRecord | None = None
    """With its parameters; `None` for a table of unknown origin."""
    seconds: Mapping[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = field(default_factory=dict)
    """Wall seconds by stage ("fit", "sample", and one per measure)."""
    audit: Audit | None = None
    """Of the claim; `None` where none ran."""
    expected: Expectation | None = None
    """Of a private fit, by public facts; `None` where nothing was worked out."""
    n_rejected_rows: Count | None = None
    """Rows that were drawn and rejected for breaking a constraint; `None` where that is not known, or there are no
    constraints.
    """

    def __repr__(self) -> str:
        """The candidate in one line; printed, it shows its key figures."""
        failures = f" and {len(self.failures):,} that are missing" if self.failures else ""
        return f"<Candidate {self.name!r}: {len(self.estimates):,} numbers{failures}>"

    def __str__(self) -> str:
        """Its key figures beside a fresh real sample and shuffled columns, one a line."""
        header = ("", "", "fresh", "shuffled"), ("", "", "real", "columns")
        return f"{plain(self.name)}: {guarantee_words(self.statement)}\n{text_table([*header, *_key_figures([self])])}"

    def _repr_html_(self) -> str:
        """Its key figures, for a notebook."""
        return html_table(repr(self).strip("<>"), _header([self.name]), _key_figures([self]))

    def to_dict(self) -> dict[str, Any]:
        """The candidate as plain data, as `evaluation.json` holds it."""
        content: dict[str, Any] = TypeAdapter(Candidate).dump_python(self, mode="json")
        return content

    def to_frame(self) -> "pd.DataFrame":
        """A row for each number or failure; columns as in `Estimate`, subjects joined by " & ", and "failure"."""
        import pandas as pd

        missing = [
            {"measure": f.measure, "subject": f.subject, "failure": f"{f.reason}: {f.message}"} for f in self.failures
        ]
        rows = [*({**vars(estimate), "failure": ""} for estimate in self.estimates), *missing]
        frame = pd.DataFrame(rows, columns=[*(field.name for field in fields(Estimate)), "failure"])
        numbers = dict.fromkeys(("value", "low", "high", "reference", "floor", "detectable"), "float64")
        return frame.assign(subject=frame["subject"].map(" & ".join)).astype({**numbers, "n": "Int64"})

    def find(self, measure: str, subject: str | tuple[str, ...] = ()) -> Estimate | Failure | None:
        """The estimate of a measure, else its failure, else `None`: it was not measured.

        Args:
            measure: name of a number or of a measure.
            subject: the columns it is about, or the only one; empty for the whole table.

        Raises:
            EvaluationError: there is no such measure.
        """
        result = self.get(measure, (subject,) if isinstance(subject, str) else subject)
        if result is None and measure not in CATALOG and measure not in MODULES and not is_ours(measure):
            raise EvaluationError(f"there is no measure {measure!r}; {nearest(measure, [*CATALOG, *MODULES])}")
        return result

    def get(self, measure: str, subject: tuple[str, ...] = ()) -> Estimate | Failure | None:
        """The same, `None` also where no such measure is installed."""
        for estimate in self.estimates:
            if estimate.measure == measure and estimate.subject == subject:
                return estimate
        return next(
            (failure for failure in self.failures if failure.measure == measure and failure.subject in (subject, ())),
            None,
        )


@dataclass(frozen=True)
class SelfTest(Record):
    """One table, made of the same real rows, of which it is known what a policy must say."""

    case: Case
    """"honest" is a half of the holdout, "copy" is train itself, "some copies" are honest rows with a few of train
    among them, "shuffled" are train's columns, each shuffled on its own, and "sorted" likewise; or a case that an extra
    brings.
    """
    candidate: Candidate | None = None
    """What was measured of it; `None` where the case says nothing about this table."""
    absent: str = ""
    """Why it says nothing, as a sentence; empty where there is a candidate."""

    def __post_init__(self) -> None:
        if (self.candidate is None) != bool(self.absent):
            raise ValueError(f"a self-test was measured, or says why not: case={self.case!r}")


@dataclass(frozen=True, repr=False)
class Evaluation(Record):
    """One real table's evaluation of one or more synthetic tables. It reads real data: outside any guarantee."""

    candidates: Annotated[tuple[Candidate, ...], Field(min_length=1)]
    """One for each synthetic table, at least one in a file, and each of a name of its own."""
    real: RealFacts
    """Facts about the real table."""
    schema: Schema
    """Of the real table, as it was given."""
    provenance: Provenance = field(default_factory=Provenance)
    """Seed, versions, keyed fingerprints; filled in by the application."""
    self_tests: tuple[SelfTest, ...] = ()
    """Tables of which it is known what a policy must say; empty where none was tried."""
    ranking: VendorRanking | None = None
    """Of a comparison of vendors; `None` where they were not compared."""

    def __repr__(self) -> str:
        """The evaluation in one line; printed, it shows its key figures."""
        names = ", ".join(repr(candidate.name) for candidate in self.candidates[:3])
        more = f" and {len(self.candidates) - 3} more" if len(self.candidates) > 3 else ""
        return f"<Evaluation of {names}{more} beside {self.real.rows_in_words}>"

    def __str__(self) -> str:
        """Key figures of each table, one table below the other."""
        warnings = (fill(text, WIDTH) for text in self.real.warnings)
        shown = map(str, self.candidates[:MOST_SHOWN])
        return "\n\n".join([repr(self).strip("<>"), *warnings, *shown, *self._left_out()])

    def _repr_html_(self) -> str:
        """Key figures of each table beside a fresh real sample and shuffled columns, for a notebook."""
        shown = self.candidates[:MOST_SHOWN]
        rows = [("guarantee", *(guarantee_words(candidate.statement) for candidate in shown), *(NO_GUARANTEE,) * 2)]
        caption = "; ".join([repr(self).strip("<>"), *self._left_out(), *self.real.warnings])
        return html_table(caption, _header([candidate.name for candidate in shown]), [*rows, *_key_figures(shown)])

    def _left_out(self) -> list[str]:
        n_more = len(self.candidates) - MOST_SHOWN
        return [f"{n_more:,} more tables are in its candidates"] if n_more > 0 else []

    def verdict(self, policy: Any = "internal", name: str | None = None) -> Any:
        """The verdict of a policy on one table: PASS, FAIL or INCONCLUSIVE, with the reasons when printed.

        Args:
            policy: as `evaluate.judge` takes it, which gives the verdicts of several tables.
            name: of the candidate; `None`: the only one.

        Raises:
            EvaluationError: there are several candidates, or none of that name.
            JobError: there is no such policy.
        """
        if name is None and len(self.candidates) != 1:
            known = ", ".join(repr(candidate.name) for candidate in self.candidates)
            raise EvaluationError(
                f"a verdict is on one table, and there are {known}; name one, or let evaluate.judge judge each"
            )
        (verdict,) = importlib.import_module("evaluate.gate.verdict").judge(self, [policy], name)
        return verdict

    def report(self, path: Any, policies: Any = "internal") -> Any:
        """Write the report as one HTML page, with the verdicts of these policies; the path is returned.

        Args:
            path: the file to write; one that is there is replaced. It is as internal as the evaluation.
            policies: one or several, as `evaluate.judge` takes them.

        Raises:
            JobError: there is no such policy; nothing was written.
            OutputError: the place cannot be written; nothing was left there.
        """
        verdicts = importlib.import_module("evaluate.gate.verdict").judge(self, policies)
        return importlib.import_module("reports.html").write_html(self, path, verdicts=verdicts)

    @property
    def plot(self) -> Any:
        """The report's charts, for a notebook: `columns()`, `pairs()`, `rows()`, `attacks()` and `frontier()`.

        They are a `reports.plots.Plots`. That package is above this one, so that it is imported by its name, and no
        sooner than here.
        """
        return importlib.import_module("reports.plots").Plots(self)

    def without_rows(self) -> Self:
        """The evaluation without what shows real rows, for a place that more people read than the internal report."""
        hidden = importlib.import_module("evaluate.result_io").showing_rows()
        candidates = []
        for candidate in self.candidates:
            figures = {name: figure for name, figure in candidate.figures.items() if name not in hidden}
            candidates.append(replace(candidate, figures=figures))
        return replace(self, candidates=tuple(candidates))

    def to_frame(self) -> "pd.DataFrame":
        """The numbers of all tables, a row each, with the table's name in the column "candidate"."""
        import pandas as pd

        frames = {candidate.name: candidate.to_frame() for candidate in self.candidates}
        return pd.concat(frames, names=["candidate"]).reset_index(level=0).reset_index(drop=True)

    def to_dict(self) -> dict[str, Any]:
        """The evaluation as plain data, as `evaluation.json` holds it."""
        return {"schema_version": SCHEMA_VERSION, "notice": NOTICE, **plain_content(self)}

    def to_json(self) -> str:
        """The evaluation as JSON text."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False, ensure_ascii=False)


def _header(names: Iterable[str]) -> tuple[str, ...]:
    return ("", *names, "fresh real sample", "shuffled columns")


def _key_figures(candidates: Sequence[Candidate]) -> Iterator[tuple[str, ...]]:
    """Title, number of each candidate and landmarks of every key figure that was measured or failed."""
    for measure, metric in CATALOG.items():
        results = [candidate.find(measure) for candidate in candidates] if metric.key else []
        first = next((each for each in results if isinstance(each, Estimate)), None)
        failures = [each for each in results if isinstance(each, Failure)]
        if first is not None or any(each.reason != "skipped" or each.message == NO_HOLDOUT for each in failures):
            marks = (None, None) if first is None else (first.reference, first.floor)
            yield metric.title, *map(_cell, results), *("" if mark is None else number(mark) for mark in marks)


def _cell(result: Estimate | Failure | None) -> str:
    """A number with its interval, or the reason for none."""
    if isinstance(result, Failure) and result.message == NO_HOLDOUT:
        return "not measured: no holdout"
    if not isinstance(result, Estimate):
        return "not measured" if result is None else result.reason
    interval = "" if result.low is None else f" ({number(result.low)} to {number(result.high)})"
    return f"{number(result.value)}{interval}"


@cache
def adapter() -> TypeAdapter[Evaluation]:
    """The reader and writer of evaluations as plain data."""
    return TypeAdapter(Evaluation)


def plain_content(evaluation: Evaluation) -> dict[str, Any]:
    """An evaluation as plain data, without the version of its form."""
    content: dict[str, Any] = adapter().dump_python(evaluation, mode="json")
    return content
