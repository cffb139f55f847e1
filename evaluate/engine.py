"""The engine of an evaluation: runs measures, isolates failures, keeps time limits, and hides nothing that did not run.

`evaluate` takes tables, `evaluate_beside` synthetic tables beside real rows that serve others, too. `deadline` is the
time limit on a block of code.

Every measure is a module of `evaluate.metrics.MODULES` with `measure(tables) -> MetricResult`. What they draw, by
name of the figure, is plain data:

* "validity": each constraint with the rows that break it and their masked shapes, and the columns that break a rule;
* "columns": for each column its kind, labels, edges, shares of training and synthetic rows, total variation;
* "associations": columns, matrices for training and synthetic rows (`None` where undefined), kind of each association;
* "pairs": columns, matrix of total variation, the worst pairs with their landmarks;
* "triples": the worst triples with their landmarks, how many were measured, and their share among all;
* "relations": relations between columns, the share of rows that keep each, and what is left of it;
* "utility", "membership", "distance": scores of models, the attack's ROC curve, quantiles of distances;
* "singling_out", "linkability": rates of success on members, controls and by guessing, for one and several columns, and
  for each split of the columns;
* "inference": for each column, and for models of sensitive ones, rates of success on members, controls and without the
  synthetic table, and advantages: of all targets, of rare values, and by quasi-identifiers alone;
* "fairness_models", "fairness_columns": by sensitive column, what is said of each of its groups.
"""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from types import FrameType
from typing import Any, ParamSpec, TypeVar

from evaluate.figures import OURS
from evaluate.metrics import CATALOG, GATEABLE, MODULES, is_ours, measure_of, numbers_of
from evaluate.real_facts import Duplicates, RealFacts, SampleSizes, Shift
from evaluate.result import UNASKED, Candidate, Evaluation, EvaluationError, Failure, GeneratorRecord, SelfTest
from evaluate.self_tests import self_tests_of
from evaluate.tables import N_ROWS, N_TARGETS, SAMPLE_ROWS, MetricResult, Real, Tables
from evaluate.validity.shares import unjudged
from synth.dp.statement import PrivacyStatement
from synth.errors import PlaceError, UnderstudyError, nearest
from synth.progress import Progress, quiet, shown
from synth.schema import Schema, TaskKind, build_schema
from synth.table.conforming import Outside

AGAIN_S = 0.5  # The alarm repeats: one that rings inside a destructor or a callback is lost

TERMINATED = 128 + signal.SIGTERM  # Code of the exit by which a command ends politely


class OutOfTimeError(BaseException):
    """The time is up. Not an `Exception`, so that no library in between takes it for an error of its own."""


class _Rung(KeyboardInterrupt):
    """The alarm's exception in the block: to libraries a Ctrl-C, at which a driver ends its query on the server."""


@dataclass
class _Bell:
    """State of the alarm: rung or not, and over or not."""

    rang: bool = False
    over: bool = False

    def ring(self, number: int, frame: FrameType | None) -> None:
        if self.over or _dealt_with(sys.exc_info()[1]):
            return
        self.rang = True
        raise _Rung


@contextmanager
def deadline(limit_s: float | None) -> Iterator[None]:
    """Run a block for so long at most.

    It takes the alarm clock of the process, so it works in the main thread only; elsewhere, and where the system has no
    such clock, the block runs to its end. An alarm that was set before is set again afterwards.

    Once the alarm has rung, whatever the block ends in is what that made of it: a driver's error for a query that was
    cut short, or half a result. Before, a Ctrl-C is the user's own.
    """
    alarm = getattr(signal, "SIGALRM", None)
    if limit_s is None or alarm is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    began, bell = time.monotonic(), _Bell()
    earlier = signal.signal(alarm, bell.ring)
    left_s, interval_s = signal.setitimer(signal.ITIMER_REAL, limit_s, AGAIN_S)
    try:
        try:
            yield
        finally:
            bell.over = True
    except BaseException:
        if not bell.rang:
            raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(alarm, earlier)
        if left_s > 0.0:
            signal.setitimer(signal.ITIMER_REAL, max(left_s - (time.monotonic() - began), 0.001), interval_s)
    if bell.rang:
        raise OutOfTimeError


def _dealt_with(error: BaseException | None) -> bool:
    """True while an earlier alarm is being handled, as by a driver that waits for its query to be cancelled."""
    while error is not None and not isinstance(error, _Rung):
        error = error.__context__
    return error is not None


T = TypeVar("T")


P = ParamSpec("P")


def _by_keyword(work: Callable[P, T]) -> Callable[P, T]:
    """The function, called by keywords alone: other libraries take real and synthetic rows in another order."""

    @wraps(work)
    def called(*args: P.args, **keywords: P.kwargs) -> T:
        if args:
            raise TypeError(
                f"{work.__name__} takes its tables by keyword, so that none is taken for another: write "
                f"{work.__name__}(train=..., holdout=..., synthetic=..., schema=...)"
            )
        return work(*args, **keywords)

    return called


@_by_keyword
def evaluate(  # noqa: PLR0913 (the front door)
    *,
    train: Any,
    holdout: Any,
    synthetic: Any,
    schema: Schema,
    measures: Iterable[str] | None = None,
    time_limit_s: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    statements: Mapping[str, PrivacyStatement] | None = None,
    generators: Mapping[str, GeneratorRecord] | None = None,
    outside: Outside = "refuse",
    target: str | None = None,
    task: TaskKind | None = None,
    n_targets: int | None = N_TARGETS,
    n_rows: int | None = N_ROWS,
    sample_rows: int = SAMPLE_ROWS,
) -> Evaluation:
    """The evaluation of one or more synthetic tables of one real table; all is passed by keyword.

    Args:
        train: *Sensitive*. Real rows that the generator saw: a frame of any kind, a path, an address of a database.
        holdout: *Sensitive*. Real rows that it did not see.
        synthetic: a table, which is then called "synthetic", or tables by name.
        schema: inferred or declared.
        measures: names in `MODULES`; `None`: all.
        time_limit_s: wall seconds for each measure of each table; `None`: no limit.
        seed: the same seed gives the same numbers.
        progress: told what is being measured; `None`: a bar in a notebook, nothing elsewhere; `synth.quiet`: nothing.
        statements: privacy statements, by name of the table.
        generators: the generators with their parameters, by name of the table.
        outside: what to do with values of the real tables that do not fit the schema: "refuse", or "clamp" as
            `synth.table.conform` does. Synthetic tables are always clamped, and `validity` counts what did not fit.
        target: the column that models predict; `None`: the schema's.
        task: "classification" or "regression" of it; `None`: the schema's, or by its kind and number of values.
        n_targets: rows of either side that attacks are tried on at most, a seeded sample; `None`: all.
        n_rows: rows of each table that marginal fidelity compares at most, a seeded sample; `None`: all.
        sample_rows: rows of either real side that measures are given at most, a seeded sample of whole entities, and
            five times as many synthetic ones; copies, validity and quasi-identifiers are counted among all rows.

    Raises:
        EvaluationError: a measure is unknown, or a side has too few rows; nothing was measured.
        SchemaError: the target is no column that is learned, or does not go with the task; nothing was measured.
        TableError: a real table does not fit the schema, or a synthetic one lacks a column; nothing was measured.
    """
    _chosen(measures)
    given = dict(synthetic) if isinstance(synthetic, Mapping) else {"synthetic": synthetic}
    schema = aimed(schema, target, task)
    real = Real.prepare(
        train, holdout, schema, seed=seed, outside=outside, n_targets=n_targets, n_rows=n_rows, sample_rows=sample_rows
    )
    with shown(progress) as tell:
        return evaluate_beside(
            real, given, measures=measures, time_limit_s=time_limit_s, progress=tell, statements=statements,
            generators=generators,
        )  # fmt: skip


def evaluate_beside(  # noqa: PLR0913 (as `evaluate`: tables, then the rest by keyword)
    real: Real,
    synthetic: Mapping[str, Any],
    *,
    measures: Iterable[str] | None = None,
    time_limit_s: float | None = None,
    progress: Progress = quiet,
    statements: Mapping[str, PrivacyStatement] | None = None,
    generators: Mapping[str, GeneratorRecord] | None = None,
    self_tested: bool = True,
) -> Evaluation:
    """The evaluation of synthetic tables beside real rows that may serve others, too.

    Args:
        real: *Sensitive*. What is measured of real rows alone is measured once and kept with them.
    """
    chosen = _chosen(measures)
    prepared = {name: real.beside(table, (statements or {}).get(name)) for name, table in synthetic.items()}
    candidates = []
    for name, tables in prepared.items():
        measured = measure_candidate(
            name, tables, measures=chosen, time_limit_s=time_limit_s, progress=progress,
            statement=(statements or {}).get(name), generator=(generators or {}).get(name),
        )  # fmt: skip
        candidates.append(measured)
        tables.kept.clear()
    self_tests: tuple[SelfTest, ...] = ()
    if self_tested:
        progress("self-tests", None)
        self_tests = self_tests_of(real, chosen, lambda name, tables: _run(name, tables, None)[0])
    return Evaluation(tuple(candidates), real_facts(real, chosen, progress), real.declared, self_tests=self_tests)


def _shift(real: Real, chosen: Iterable[str], progress: Progress) -> Shift:
    """The shift of train against holdout, tested once."""
    if not any(name.startswith("privacy.") for name in chosen):
        return Shift(untested="no measure that rests on it was asked for")
    return real.kept.once("shift", lambda: _tested(real, progress))


def _tested(real: Real, progress: Progress) -> Shift:
    from evaluate.fidelity.two_samples import shift_of

    progress("train against holdout", None)
    found, _ = attempted("shift", lambda: shift_of(real))
    return Shift(untested=found.message) if isinstance(found, Failure) else found


def aimed(schema: Schema, target: str | None, task: TaskKind | None = None) -> Schema:
    """The schema with another column to predict, or another task."""
    if target is None and task is None:
        return schema
    if target is None or target == schema.target:
        return build_schema({**schema.model_dump(), "task": task or schema.task})
    return build_schema({**schema.model_dump(), "target": target, "task": task})


def measure_candidate(
    name: str,
    tables: Tables,
    *,
    measures: Iterable[str] | None = None,
    time_limit_s: float | None = None,
    progress: Progress = quiet,
    statement: PrivacyStatement | None = None,
    generator: GeneratorRecord | None = None,
) -> Candidate:
    """The evaluation of one synthetic table. A measure that fails or takes too long is listed as such.

    Args:
        tables: *Sensitive*. As `Tables.prepare` gives them.
    """
    chosen = _chosen(measures)
    runs = {}
    for index, measure in enumerate(chosen):
        progress(f"measure {name}: {measure}", index / len(chosen))
        runs[measure] = _run(measure, tables, time_limit_s)
    progress(f"measure {name}", 1.0)
    found = [result for result, _ in runs.values()]
    skipped = [_failures(m, "skipped", UNASKED) for m in MODULES if m not in runs]
    figures: dict[str, Any] = {}
    for key, figure in (item for one in found for item in one.figures.items()):
        figures.setdefault(key, figure)  # ours come first
    return Candidate(
        name=name,
        estimates=(*unjudged(tables), *(estimate for one in found for estimate in one.estimates)),
        failures=tuple(f for failures in (*(one.failures for one in found), *skipped) for f in failures),
        figures=figures,
        statement=statement,
        generator=generator,
        seconds={measure: round(seconds, 3) for measure, (_, seconds) in runs.items()},
    )


def _run(measure: str, tables: Tables, time_limit_s: float | None) -> tuple[MetricResult, float]:
    from evaluate.sample_notes import on_samples  # it knows measures, which are slow to import

    with _attempt(measure, time_limit_s) as tried:
        tried.found = measure_of(measure)(tables)
    return on_samples(measure, _result(measure, tried.found), tables), tried.seconds


def isolated(
    measure: str, work: Callable[[], MetricResult], time_limit_s: float | None
) -> tuple[MetricResult, float]:  # fmt: skip
    """The result of a measure, with errors turned into failures, and its wall seconds."""
    found, seconds = attempted(measure, work, time_limit_s)
    return _result(measure, found), seconds


def attempted(
    name: str, work: Callable[[], T], time_limit_s: float | None = None
) -> tuple[T | Failure, float]:  # fmt: skip
    """The result of some work, or the failure that its error is turned into, and its wall seconds."""
    with _attempt(name, time_limit_s) as tried:
        tried.found = work()
    return tried.found, tried.seconds


@dataclass
class _Attempt:
    found: Any = None
    seconds: float = 0.0


@contextmanager
def _attempt(name: str, time_limit_s: float | None) -> Iterator[_Attempt]:
    """Run a block whose errors, and whose time, must not spoil anything else; see `attempted`."""
    began, tried = time.monotonic(), _Attempt()
    asked = (
        "" if time_limit_s is None else f"it did not end within the time_limit_s={time_limit_s:g} that was asked for"
    )
    late = Failure(name, "timed out", asked)
    try:
        with deadline(time_limit_s):
            yield tried
    except OutOfTimeError:
        tried.found = late
    except PlaceError:
        raise
    except UnderstudyError as error:  # by contract such a message holds no cell value
        tried.found = Failure(name, "failed", str(error))
    except (Exception, SystemExit) as error:
        if isinstance(error, SystemExit) and error.code == TERMINATED:
            raise
        tried.found = Failure(
            name, "failed", f"it ended in an internal error, {type(error).__name__}; please report it"
        )
    tried.seconds = time.monotonic() - began
    # No alarm can be set outside the main thread: the result came, but not in the time that somebody asked for.
    if time_limit_s is not None and tried.seconds > time_limit_s and not isinstance(tried.found, Failure):
        tried.found = late


def _result(measure: str, found: MetricResult | Failure) -> MetricResult:
    """The result of a measure; a failure stands for each of its numbers. A number of another measure is refused: a
    plug-in must not answer for one of ours that failed. So is whatever the reader of evaluations would refuse.
    """
    if isinstance(found, MetricResult):
        fault = _fault(measure, found)
        if not fault:
            return found
        found = Failure(measure, "failed", fault)
    elif not isinstance(found, Failure):
        found = Failure(measure, "failed", "it gave no result")
    return MetricResult(failures=_failures(measure, found.reason, found.message))


def _fault(measure: str, found: MetricResult) -> str:
    """The fault of a result that no evaluation may hold; empty for none."""
    seen = set()
    for one in found.estimates:
        name, known = str(one.measure), CATALOG.get(str(one.measure))
        if known is not None and known.by != measure:
            return f"it gave {name!r}, which is a number of another measure"
        if known is not None and known.direction != one.direction:
            return f"it gave {name!r} with another direction than it declares"
        if (name, one.subject) in seen:
            return f"it gave {name!r} twice"
        seen.add((name, one.subject))
    return "" if is_ours(measure) else _fault_of_others(measure, found)


def _fault_of_others(measure: str, found: MetricResult) -> str:
    """The fault of another package's result: it answers for a measure or a figure of ours."""
    for one in found.failures:
        known = CATALOG.get(str(one.measure))
        if one.measure != measure and (known is None or known.by != measure):
            return f"it gave a failure of {str(one.measure)!r}, which is not its own"
    taken = [name for name in found.figures if name in OURS]
    return f"it gave the figure {taken[0]!r}, which is one of ours" if taken else ""


def _failures(measure: str, reason: Any, message: str) -> tuple[Failure, ...]:
    """A failure of the measure, and of each number it would have given to a policy."""
    names = dict.fromkeys((measure, *(name for name in numbers_of(measure) if name in GATEABLE)))
    return tuple(Failure(name, reason, message) for name in names)


def _chosen(measures: str | Iterable[str] | None) -> list[str]:
    names = [measures] if isinstance(measures, str) else list(dict.fromkeys(MODULES if measures is None else measures))
    for name in names:
        if name not in MODULES:
            raise EvaluationError(f"there is no measure {name!r}; {nearest(name, MODULES)}")
    if not names:
        raise EvaluationError(f"no measure is named; known are: {', '.join(sorted(MODULES))}")
    return [name for name in MODULES if name in names]


def real_facts(real: Real, measures: Iterable[str] | None = None, progress: Progress = quiet) -> RealFacts:
    """Facts about the real table. `real`: *Sensitive*. Its rows."""
    schema, shift = real.declared, _shift(real, MODULES if measures is None else measures, progress)
    return RealFacts(
        **real.kept.once("facts", lambda: _row_facts(real)),
        columns=len(schema.kept),
        target=schema.target,
        entity=schema.entity,
        shift=shift,
        order=schema.order,
        texts=schema.texts,
    )


def _row_facts(real: Real) -> dict[str, Any]:
    """Numbers of rows and of equal rows on either side, of all of them; and of the samples that are not all."""
    train, holdout = real.hashes("train"), real.hashes("holdout")
    n_across, counts = int((train.times(holdout.keys) > 0).sum()), train.distinct[1]
    cut = {f"{side}_rows": whole.n_sampled for side, whole in real.whole.items()}
    return {
        "train_rows": len(train),
        "holdout_rows": len(holdout),
        "duplicates_across": Duplicates(n_across, n_across / len(holdout)),
        "duplicate_share_train": float(counts[counts > 1].sum() / len(train)),
        "sampled": SampleSizes(**cut) if cut else None,
    }
