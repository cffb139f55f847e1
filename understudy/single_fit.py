"""One fit outside a job: checked before a row is read, paid for before the first draw, saved whole."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synth.dp.schedule import Schedule
from synth.errors import JobError, OutputError
from synth.generators.base import Generator, PrivateGenerator, fit_model
from synth.generators.models.model import Model
from synth.output import check_new_folder, is_taken
from synth.progress import Progress
from synth.schema import Schema
from synth.table.conforming import Outside
from synth.table.table import Table
from understudy import provenance
from understudy.budget.account import Fund, ledger_url, open_fund
from understudy.budget.payment import Payment, Release, RequestsInMemory
from understudy.data.load import check_columns, read_rows
from understudy.data.source import RealTable
from understudy.evaluation_log import note_training
from understudy.executors.executor import PROCESSES, checked, counting
from understudy.run.preflight import Intent, cautions


@dataclass(frozen=True)
class SingleFit:
    """A fit that is about to be made."""

    generator: Generator
    table: RealTable
    schema: Schema
    schedule: Schedule | None
    fund: Fund | None
    outside: Outside
    out: Path
    training: Path | None = None
    executor: str | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings before a row is read."""
        schedules = {} if self.schedule is None else {"": self.schedule}
        return cautions(Intent({"": self.generator}, schedules, self.schema, self.fund, self.outside))


def plan_fit(  # noqa: PLR0913 (a generator and a table, then the rest by keyword)
    chosen: Generator,
    table: RealTable,
    schema: Schema,
    out: Path,
    *,
    outside: Outside,
    ledger: str | None,
    training: Path | None = None,
    executor: str | None = None,
) -> SingleFit:
    """A fit, or the first thing that would go wrong. No row is read and nothing is written or reserved."""
    check_new_folder(out)
    if training is not None and not chosen.resumes:
        raise JobError(f"generator={chosen.name!r} keeps no log and no unfinished work; leave --training out")
    if executor is not None:
        if executor != PROCESSES:
            checked(executor, "counting")
        counts = isinstance(chosen, PrivateGenerator) and chosen.promises and chosen.counts_alone
        if not counts or outside != "clamp" or chosen.in_order:
            raise JobError(
                "--executor is for counts with epsilon of values that are clamped (--clamp), by independent, mst, aim "
                "or latent_class, of rows without an order and without texts; leave it out"
            )
    chosen.check(schema)
    chosen.check_saving()
    url = ledger_url(ledger)
    schedule = fund = None
    if isinstance(chosen, PrivateGenerator) and chosen.promises:
        fund = None if url is None else open_fund(url, schema)
        schedule = chosen.schedule(schema)
    if fund is not None and schedule is not None:
        fund.check({chosen.name: schedule.curve})
    return SingleFit(chosen, table, schema, schedule, fund, outside, out, training, executor)


def carry_out(fit: SingleFit, seed: int, progress: Progress) -> tuple[Model, tuple[str, ...]]:
    """The saved model, and the ledger's warnings about the table."""
    kept = RequestsInMemory()
    with ExitStack() as until_the_end:
        if fit.executor is None:
            fit.out.absolute().parent.mkdir(parents=True, exist_ok=True)
            real: Any = read_rows(fit.table, fit.schema, fit.outside, fit.out.absolute().parent)
        else:
            check_columns(fit.table, fit.schema, extra=False)
            real = Table.of(fit.table.absolute).on(until_the_end.enter_context(counting(fit.executor)))
        model = _fitted(fit, real, seed, progress, kept)
    return model, kept.warnings


def _fitted(fit: SingleFit, real: Any, seed: int, progress: Progress, kept: RequestsInMemory) -> Model:
    name = fit.generator.name
    releases = {} if fit.schedule is None else {name: Release(fit.schedule, f"a fit by {name}", f"generator={name!r}")}
    payment = Payment(fit.fund, fit.schema, releases, kept)
    # Before the fit: a table that cannot be read again must not cost one that is paid for.
    trained_on = None
    try:
        trained_on = provenance.fingerprint(real, fit.schema, provenance.fingerprint_key(provenance.key_path()))
    except OutputError:  # without a place for a key nothing is known later; a ledger needs one
        if fit.fund is not None:
            raise
    if fit.fund is not None and trained_on is not None:
        payment.reserve(trained_on)
    try:
        with payment.budget(name) as budget:
            model = fit_model(
                fit.generator, real, fit.schema, seed=seed, progress=progress, budget=budget, place=fit.training
            )
        model.save(fit.out)
        if trained_on is not None:
            note_training(fit.out, trained_on, fit.schema)
        payment.commit(model.statement)
    except BaseException as error:
        if fit.fund is not None:
            left = "the model is saved" if is_taken(fit.out) else "no model was left"
            error.add_note(f"{left}, and what the ledger reserved for it stays spent")
        raise
    return model
