"""The engine of an evaluation: runs measures, isolates failures, keeps time limits, hides nothing that did not run."""

import signal
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from inspect import signature
from types import FrameType
from typing import Any, TypeVar

import pandas as pd

from evaluate.estimate import NO_HOLDOUT, NotMeasuredError
from evaluate.gate.decision import SAMPLED, UNSEARCHED
from evaluate.intervals import clopper_pearson
from evaluate.metrics import CATALOG, GATEABLE, MODULES, is_ours, measure_of, needs_holdout, numbers_of
from evaluate.options import EvaluationOptions
from evaluate.real_facts import RealFacts, Shift
from evaluate.result import (
    UNASKED,
    Candidate,
    Estimate,
    Evaluation,
    EvaluationError,
    Failure,
    GeneratorRecord,
    SelfTest,
)
from evaluate.result_io import OURS
from evaluate.sampling import Side
from evaluate.self_tests import self_tests_of
from evaluate.tables import MetricResult, Real, Tables
from evaluate.validity import unjudged
from synth.dp.statement import PrivacyStatement
from synth.errors import PlaceError, UnderstudyError, nearest
from synth.progress import Progress, quiet, shown
from synth.schema import Schema

AGAIN_S = 0.5  # The alarm repeats: one that rings inside a destructor or a callback is lost

TERMINATED = 128 + signal.SIGTERM  # Code of the exit by which a command ends politely


class OutOfTimeError(BaseException):
    """The time is up. Not an `Exception`, so that no library in between takes it for an error of its own."""


@contextmanager
def deadline(limit_s: float | None) -> Iterator[None]:
    """Run a block for so long at most, by the alarm clock of the process: in the main thread only; elsewhere, and where
    the system has no such clock, the block runs to its end. An alarm that was set before is set again afterwards.
    """
    alarm = getattr(signal, "SIGALRM", None)
    if limit_s is None or alarm is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    began, rang, over = time.monotonic(), False, False

    def ring(number: int, frame: FrameType | None) -> None:
        nonlocal rang
        if not over:
            rang = True
            raise OutOfTimeError

    earlier = signal.signal(alarm, ring)
    left_s, interval_s = signal.setitimer(signal.ITIMER_REAL, limit_s, AGAIN_S)
    try:
        try:
            yield
        finally:
            over = True
    except BaseException:
        if not rang:  # else it is what a library made of the alarm
            raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(alarm, earlier)
        if left_s > 0.0:
            signal.setitimer(signal.ITIMER_REAL, max(left_s - (time.monotonic() - began), 0.001), interval_s)
    if rang:
        raise OutOfTimeError


T = TypeVar("T")


def evaluate(  # noqa: PLR0913 (the front door)
    real: Any,
    synthetic: Any,
    *,
    holdout: Any = None,
    schema: Schema | None = None,
    options: EvaluationOptions | None = None,
    progress: Progress | None = None,
    statements: Mapping[str, PrivacyStatement] | None = None,
    generators: Mapping[str, GeneratorRecord] | None = None,
    **settings: Any,
) -> Evaluation:
    """The evaluation of one or more synthetic tables of one real table.

    A table is a frame of pandas, polars, Arrow, DuckDB, Ibis, Spark or Dask, a dict of columns, the path of a file or a
    folder, or the address of a table in a database.

    Without a holdout no attack is run and no model is trained: rows that the generator saw tell nothing of either.
    Fidelity is then measured between halves of the real rows, which are drawn by seed: one half is what the table is
    compared with, and the other takes the place of a fresh real sample.

    Args:
        real: *Sensitive*. Real rows that the generator saw.
        synthetic: a table, which is then called "synthetic", or a dict of tables by name.
        holdout: *Sensitive*. Real rows of the same kind that the generator did not see; `None`: there are none.
        schema: inferred or declared; `None`: it is inferred from the real rows, those of the holdout among them.
        options: what is measured, and on how many rows; `None`: everything.
        progress: told what is being measured; `None`: a bar in a notebook, nothing elsewhere; `synth.quiet`: nothing.
        statements: privacy statements, by name of the table.
        generators: the generators with their parameters, by name of the table.
        **settings: fields of `EvaluationOptions`, such as `measures=["fidelity.pairs"]` or `seed=1`.

    Raises:
        EvaluationError: an argument is not what it should be, a measure is unknown, or a side has too few rows.
        SchemaError: the target is no column that is learned, or does not go with the task.
        TableError: a real table does not fit the schema, or a synthetic one lacks a column. Whatever is raised, nothing
            was measured.

    >>> import numpy as np, pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"age": rng.integers(18, 90, 400), "smoker": rng.random(400) < 0.3})
    >>> found = evaluate(table[:300], table[300:], measures="fidelity.columns")
    >>> found
    <Evaluation of 'synthetic' beside 300 real rows, none held out>
    >>> found.candidates[0].find("columns.tvd.excess.worst").n
    100
    """
    known = [*signature(evaluate).parameters, *EvaluationOptions.model_fields]
    for name in settings.keys() - {*known}:
        raise EvaluationError(f"unknown key {name!r}; {nearest(name, known)}")
    asked = EvaluationOptions.of(options, settings)
    _chosen(asked.measures)
    for name, table in (("real", real), ("synthetic", synthetic), ("holdout", holdout)):
        _check_table(name, table)
    tables = dict(synthetic) if _is_by_name(synthetic) else {"synthetic": synthetic}
    for name in (*(statements or ()), *(generators or ())):
        if name not in tables:
            raise EvaluationError(f"there is no synthetic table {name!r}; {nearest(name, tables)}")
    if schema is None:
        schema = proposed_schema([real] if holdout is None else [real, holdout], asked)
    elif not isinstance(schema, Schema):
        raise EvaluationError(f"schema is a {type(schema).__name__}; pass what synth.infer_schema or read_schema gives")
    sides = Real.prepare(real, holdout, asked.aim(schema), asked)
    with shown(progress) as tell:
        return evaluate_beside(
            sides, tables, measures=asked.measures, time_limit_s=asked.time_limit_s, progress=tell,
            statements=statements, generators=generators,
        )  # fmt: skip


def _check_table(name: str, table: Any) -> None:
    """Refuse what is plainly no table, and say what was meant."""
    for is_fault, words in (
        (isinstance(table, Schema), "is a schema, and a table belongs there; write schema=..."),
        (isinstance(table, EvaluationOptions), "holds options, and a table belongs there; write options=..."),
        (type(table).__module__.startswith("synth.generators."), "is a model; pass the table that its sample() gives"),
        (name != "synthetic" and _is_by_name(table), "is a dict of tables, and only synthetic ones are several"),
        (name != "holdout" and table is None, "is None, and a table belongs there"),
    ):
        if is_fault:
            raise EvaluationError(f"{name} {words}")


def _is_by_name(tables: Any) -> bool:
    """True of a dict of tables, false of a dict of columns."""
    return isinstance(tables, Mapping) and not any(
        isinstance(table, list | tuple) or getattr(table, "ndim", 2) == 1 or type(table).__name__ in _COLUMNS
        for table in tables.values()
    )


_COLUMNS = ("Series", "ChunkedArray", "Array")  # Kinds of columns that say nothing of their dimensions


def proposed_schema(tables: Iterable[Any], options: EvaluationOptions) -> Schema:
    """The schema that all real rows together propose. `tables`: *Sensitive*."""
    from synth.infer import infer_schema
    from synth.table.table import Table

    frames = [Table.of(table).frame() for table in tables]
    return infer_schema(pd.concat(frames, ignore_index=True), target=options.target)


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
    """The evaluation of tables beside real rows that may serve others, too: what is of these alone is measured once."""
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
        telling = [name for name in chosen if real.held_out or not needs_holdout(name)]
        self_tests = self_tests_of(real, telling, lambda name, tables: _run(name, tables, None)[0])
    return Evaluation(tuple(candidates), real_facts(real, chosen, progress), real.declared, self_tests=self_tests)


def _shift(real: Real, chosen: Iterable[str], progress: Progress) -> Shift:
    """The shift of train against holdout, tested once."""
    from evaluate.fidelity.two_samples import shift_of

    if not real.held_out:
        return Shift(untested=NO_HOLDOUT)
    if not any(name.startswith("privacy.") for name in chosen):
        return Shift(untested="no measure that rests on it was asked for")
    progress("train against holdout", None)
    shift = real.kept.once("shift", lambda: attempted("shift", lambda: shift_of(real))[0])
    return Shift(untested=shift.message) if isinstance(shift, Failure) else shift


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
    """The evaluation of one synthetic table. A measure that fails or takes too long is listed as such."""
    chosen = _chosen(measures)
    runs = {}
    for index, measure in enumerate(chosen):
        progress(f"measure {name}: {measure}", index / len(chosen))
        runs[measure] = _run(measure, tables, time_limit_s)
    progress(f"measure {name}", 1.0)
    results = [result for result, _ in runs.values()]
    results += [MetricResult(failures=_failures(each, "skipped", UNASKED)) for each in MODULES if each not in runs]
    figures: dict[str, Any] = {}
    for result in reversed(results):  # ours come first
        figures |= result.figures
    return Candidate(
        name=name,
        estimates=(*unjudged(tables), *(estimate for result in results for estimate in result.estimates)),
        failures=tuple(failure for result in results for failure in result.failures),
        figures=figures,
        statement=statement,
        generator=generator,
        seconds={measure: round(seconds, 3) for measure, (_, seconds) in runs.items()},
    )


def _run(measure: str, tables: Tables, time_limit_s: float | None) -> tuple[MetricResult, float]:
    needed = (CATALOG[name].needs for name in numbers_of(measure))
    blind = not tables.held_out and needs_holdout(measure) and all(getattr(tables.schema, n) for n in needed if n)
    seeing = {name for name in numbers_of(measure) if CATALOG[name].without_holdout}
    if blind and not seeing:
        return MetricResult(failures=_failures(measure, "skipped", NO_HOLDOUT)), 0.0
    side = tables.counted_undivided if blind else tables
    result, seconds = isolated(measure, lambda: measure_of(measure)(side), time_limit_s)
    return on_samples(measure, _without_holdout(measure, result, seeing) if blind else result, tables), seconds


def _without_holdout(measure: str, result: MetricResult, seeing: Collection[str]) -> MetricResult:
    """The numbers of a measure that compare with no held-out row; the others are not measured."""
    estimates = tuple(replace(each, reference=None) for each in result.estimates if each.measure in seeing)
    failures = tuple(each for each in result.failures if each.measure in seeing)
    unseen = (each for each in _failures(measure, "skipped", NO_HOLDOUT) if each.measure not in {measure, *seeing})
    return MetricResult(estimates, (*failures, *unseen))


def isolated(
    measure: str, work: Callable[[], MetricResult], time_limit_s: float | None
) -> tuple[MetricResult, float]:  # fmt: skip
    """The result of a measure, and its wall seconds. Errors become failures of each number that it would have given,
    and so does a result that no evaluation may hold.
    """
    result, seconds = attempted(measure, work, time_limit_s)
    if isinstance(result, MetricResult):
        fault = _fault(measure, result)
        if not fault:
            return result, seconds
        result = Failure(measure, "failed", fault)
    elif not isinstance(result, Failure):
        result = Failure(measure, "failed", "it gave no result")
    names = None if result.reason in ("failed", "timed out") else numbers_of(measure)
    return MetricResult(failures=_failures(measure, result.reason, result.message, names)), seconds


def attempted(name: str, work: Callable[[], T], time_limit_s: float | None = None) -> tuple[T | Failure, float]:
    """The result of some work, or the failure that its error or its time is turned into, and its wall seconds."""
    began, late = time.monotonic(), False
    result: T | Failure
    try:
        with deadline(time_limit_s):
            result = work()
        # No alarm can be set outside the main thread: the result came, but not in the time that somebody asked for.
        late = time_limit_s is not None and time.monotonic() - began > time_limit_s
    except OutOfTimeError:
        late = True
    except PlaceError:
        raise
    except NotMeasuredError as why:
        result = Failure(name, why.reason, str(why))
    except UnderstudyError as error:  # by contract such a message holds no cell value
        result = Failure(name, "failed", str(error))
    except (Exception, SystemExit) as error:
        if isinstance(error, SystemExit) and error.code == TERMINATED:
            raise
        internal = f"it ended in an internal error, {type(error).__name__}; please report it"
        result = Failure(name, "failed", internal)
    if late:
        result = Failure(name, "timed out", f"it did not end within the {time_limit_s=:g} that was asked for")
    return result, time.monotonic() - began


def _fault(measure: str, result: MetricResult) -> str:
    """The fault of a result that no evaluation may hold; empty for none. Another package answers for none of ours."""
    seen = set()
    for estimate in result.estimates:
        name, known = str(estimate.measure), CATALOG.get(str(estimate.measure))
        if known is not None and known.by != measure:
            return f"it gave {name!r}, which is a number of another measure"
        if known is not None and known.direction != estimate.direction:
            return f"it gave {name!r} with another direction than it declares"
        if (name, estimate.subject) in seen:
            return f"it gave {name!r} twice"
        seen.add((name, estimate.subject))
    if is_ours(measure):
        return ""
    for failure in result.failures:
        known = CATALOG.get(str(failure.measure))
        if failure.measure != measure and (known is None or known.by != measure):
            return f"it gave a failure of {str(failure.measure)!r}, which is not its own"
    taken = [name for name in result.figures if name in OURS]
    return f"it gave the figure {taken[0]!r}, which is one of ours" if taken else ""


def _failures(measure: str, reason: Any, message: str, names: Iterable[str] | None = None) -> tuple[Failure, ...]:
    """A failure of some numbers; by default of the measure, and of each number it would have given to a policy."""
    if names is None:
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
    """Facts about the real table: of all its rows, whether they are at hand or not. `real`: *Sensitive*. Its rows."""
    schema, shift = real.declared, _shift(real, MODULES if measures is None else measures, progress)
    return RealFacts(
        **real.kept.once("facts", lambda: _row_facts(real)), columns=len(schema.kept), target=schema.target,
        entity=schema.entity, shift=shift, order=schema.order, texts=schema.texts,
    )  # fmt: skip


def _row_facts(real: Real) -> dict[str, Any]:
    everything = real.undivided
    train = real.hashes("train") if everything is None else everything.hashes
    held_out = real.hashes("holdout").keys if real.held_out else train.keys[:0]
    counts = train.distinct[1]
    return {
        "train_rows": len(train),
        "holdout_rows": len(held_out),
        "duplicates_across": int((train.times(held_out) > 0).sum()),
        "duplicate_share_train": float(counts[counts > 1].sum() / len(train)),
    }


ON_ALL_ROWS = ("validity", "privacy.copies")  # Measures that count all rows
_SINGLED_OUT, _PERSONAL = "privacy.singling_out", "privacy.personal"
_CHANCE = {".auc": 0.5, ".tpr_at_0.01": 0.01, ".tpr_at_0.001": 0.001}
"""The score of an attack without any success, by the end of its name; 0 for all others."""
_AMONG = {
    _SINGLED_OUT: "whoever is singled out is so among the people of the sample",
    "privacy.distance": "the nearest row is the nearest one of the sample",
}
"""Further notes on the sample, by measure."""


def on_samples(measure: str, result: MetricResult, tables: Tables) -> MetricResult:
    """A measure's result with a note on its samples; where these are all rows, nothing changes."""
    names: dict[Side, str] = {"train": "training", "holdout": "held-out", "synthetic": "synthetic"}
    if not tables.held_out:
        names |= {"train": "real", "holdout": "other real"}
    whole = [(tables.whole[side], name) for side, name in names.items() if side in tables.whole]
    cut = ", ".join(f"{rows.n_sampled:,} of {len(rows):,} {name}" for rows, name in whole)
    kept = (tables.schema.columns[name] for name in tables.schema.kept)
    # Without a column in which a real person's value could stand unlearned, nothing was looked for.
    finds_nothing = measure == _PERSONAL and not any(column.is_replaced for column in kept)
    if measure in ON_ALL_ROWS or not cut or finds_nothing:
        return result
    notes = f"{SAMPLED}{cut} rows", _AMONG.get(measure)
    estimates = tuple(replace(each, note="; ".join(filter(None, (each.note, *notes)))) for each in result.estimates)
    if measure.startswith("privacy."):
        estimates = tuple(_allowed(each, measure, tables) for each in estimates)
    return replace(result, estimates=estimates)


def _allowed(estimate: Estimate, measure: str, tables: Tables) -> Estimate:
    """The number with an upper end that allows for what was not searched.

    If each leak rests on one synthetic row, a sample of a share s of the table shows a share s of the leak: the upper
    end is raised to chance + (end - chance) / s. A leak that rests on several rows together shows even less of itself.
    The upper end is 1 where a share of the rows says nothing of the leak: one person's data may stand in most synthetic
    rows and that person not be in the sample (`Metric.sampled` "counted"), and a description that is alone in a sample
    need not be alone in the table (`privacy.singling_out`).
    """
    if estimate.direction != "lower" or estimate.low is None or estimate.high is None:
        return estimate
    sampled = CATALOG[estimate.measure].sampled if estimate.measure in CATALOG else ""
    synthetic = tables.share_at_hand("synthetic")
    real = min(tables.share_at_hand("train"), tables.share_at_hand("holdout"))
    share = synthetic  # of a leak that a sample shows; 0 where it may show nothing
    if measure == _PERSONAL or sampled == "counted":
        share = 1.0 if real == 1.0 else 0.0  # a share of the synthetic rows is that of a sample of them
    elif measure == _SINGLED_OUT:
        share = real if synthetic == 1.0 else 0.0
    if sampled == "counted" and synthetic < 1.0:
        # As a sample, it has a sampling error; the rows that were found are in the table all the same.
        most = max(estimate.value, clopper_pearson(round(estimate.value * estimate.n), estimate.n)[1])
        estimate = replace(estimate, low=estimate.value * synthetic, high=most)
    if sampled == "copied" and min(synthetic, real) < 1.0:
        most = estimate.high or 0.0
        estimate = replace(estimate, high=max(most, clopper_pearson(most * estimate.n, estimate.n)[1]))
    if share == 1.0:
        return estimate
    chance = next((value for end, value in _CHANCE.items() if estimate.measure.endswith(end)), 0.0)

    def of_all(end: float) -> float:
        return min(1.0, max(end, chance + (end - chance) / share)) if share else 1.0

    detectable = None if estimate.detectable is None else of_all(estimate.detectable)
    unseen = f"{1.0 - share:.1%} of the rows" if share else "of which it may hold anything"
    note = f"{estimate.note}; {UNSEARCHED} ({unseen})"
    return replace(estimate, high=of_all(estimate.high or 0.0), detectable=detectable, note=note)
