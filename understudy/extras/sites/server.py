"""Both ends of a run of several sites: each site answers and judges, the server fits, draws and hears verdicts.

A site's OUT holds synthetic.csv as the server sent it, statement.json by the site's own books, and the evaluation on
its own rows, which stays there. Until it has its table, the hidden folder beside OUT holds its reservation and its
noisy answers: the same command goes on from there; another job or table begins anew.

The server's OUT holds synthetic.csv, model/, statement.json and sites.json, in which verdicts, seconds and who was late
follow from real rows outside the guarantee: it stays inside. Until it is whole, the hidden folder beside it holds the
sums that were shown. A sum that was lost is asked for again: sites show the same answers in a sum of the same sites.
"""

import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from evaluate.engine import evaluate_beside
from evaluate.gate.verdict import judge
from evaluate.provenance import Provenance
from evaluate.result import EvaluationError, GeneratorRecord
from evaluate.tables import Real
from synth.dp.noise_journal import Journal
from synth.dp.statement import LedgerNote, PrivacyStatement
from synth.errors import JobError, TableError
from synth.output import RUN, Unfinished, check_new_folder, hidden_beside, read_state, sync_all, whole_file
from synth.progress import Progress, quiet
from synth.split import split_table
from synth.table import read_table, write_table
from understudy import provenance
from understudy.budget import Fund, Payment, Release, RequestsInMemory, ledger_url, open_fund
from understudy.bundle.evidence import VERDICT, Delivery, deliver
from understudy.console import VERDICTS
from understudy.data import RealTable, find_table, read_rows
from understudy.extras.sites.channel import Channel, LocalChannel, SitesError, pack, unpack
from understudy.extras.sites.job import SitesInputs
from understudy.extras.sites.remote_table import RemoteRows, SecureSums, SitesBudget, fit_network, stated
from understudy.extras.sites.site import DRAWN, OTHER_JOB, NoisyAnswers, Site
from understudy.job import child_seed
from understudy.provenance import count_attempt
from understudy.run.stages import audit_claim

SYNTHETIC, STATEMENT, ANSWERS, RESERVATION = "synthetic.csv", "statement.json", "answers", "reservation.json"
RECORD, TRAINING = "sites.json", "training"  # files of the server alone
ALL_SITES = "all sites"  # the name of the synthetic table in evaluations
NOT_HEARD = "not heard"  # in place of a verdict, of a site that is gone or late
HOLDOUT_SHARE = 0.2
SITE_WARNING = (
    "the synthetic table is of all sites together, and it is measured on the rows of this site alone: where this site "
    "is unlike the others, distances are large for that reason"
)


class Reservation(RequestsInMemory):
    """The entry of a site's ledger for the run: it pays for this run, however often the site is started again."""

    def __init__(self, fund: Fund, folder: Path, name: str, inputs: SitesInputs, fingerprint: str) -> None:
        super().__init__(read_state(folder / RESERVATION, {}))
        self._folder, self._ledger = folder, fund.ledger
        release = Release(inputs.schedule, f"a fit by {inputs.generator.name} of several sites", f"site={name!r}")
        Payment(fund, inputs.schema, {name: release}, self).reserve(fingerprint)
        self._token = str(self.requests[name]["token"])

    def write_request(self, label: str, content: Mapping[str, Any]) -> None:
        super().write_request(label, content)
        self._write()  # the requests are on the disk before the ledger is asked

    def forget_request(self, label: str) -> None:
        super().forget_request(label)
        self._write()

    def is_drawn(self, label: str) -> bool:
        return any((self._folder / ANSWERS).glob(DRAWN))

    def _write(self) -> None:
        with whole_file(self._folder / RESERVATION) as beside:
            beside.write_text(json.dumps(self.requests), encoding="utf-8")

    def use(self) -> None:
        """Charge the reservation, before noise is drawn under it for the first time."""
        if self._ledger.reservation(self._token).state == "reserved":
            self._ledger.use(self._token)

    @property
    def note(self) -> LedgerNote:
        return self._ledger.note(self._token)

    def commit(self, statement: PrivacyStatement) -> None:
        """Close the reservation: the table is there. A site that drew nothing has paid all the same."""
        self.use()
        self._ledger.commit(self._token, {"epsilon": statement.epsilon, "delta": statement.delta})


class Participant:
    """A site's respondent: noisy answers while the fit lasts, then the verdict on the table that came of it."""

    def __init__(self, name: str, inputs: SitesInputs, table: RealTable, out: Path, ledger: str | None) -> None:
        """The part of a site, or the first thing that is wrong. No row is read and nothing is reserved."""
        if name not in inputs.names:
            raise JobError(f"site={name!r} is none of the job's, which are {', '.join(inputs.names)}; name one of them")
        check_new_folder(out)
        self.name, self.inputs, self.out, self._table = name, inputs, out, table
        self._fund = None if ledger is None else open_fund(ledger, inputs.schema)
        folder = hidden_beside(out, RUN)
        self.work, self.is_finished = Unfinished(folder, out, folder / "result"), False

    @contextmanager
    def at_work(self, progress: Progress = quiet) -> Iterator[Self]:
        work, inputs, folder, out = self.work, self.inputs, self.work.folder, str(self.out)
        with work.held(f"another process takes part as {out!r}; wait for it to end, or name another output"):
            progress("reading the site's table", None)
            real = read_rows(self._table, inputs.schema, "clamp", folder)
            key = provenance.fingerprint_key(provenance.key_path())
            self._fingerprint = provenance.fingerprint(real, inputs.schema, key)
            self._go_on({"job": inputs.digest, "site": self.name, "table": self._fingerprint})
            options: Any = {"holdout_share": HOLDOUT_SHARE, "private": True, "any_size": True}
            self._sides = split_table(real, inputs.schema, seed=child_seed(inputs.job.seed, "split"), **options)
            self._progress = progress
            self.paid = self._fund and Reservation(self._fund, folder, self.name, inputs, self._fingerprint)
            before_draws = self.paid.use if self.paid else lambda: None
            answers = NoisyAnswers(folder / ANSWERS)
            self.site = Site(self.name, inputs, self._sides.train, answers, before_draws=before_draws)
            yield self
            if self.is_finished:
                work.discard()

    def _go_on(self, whose: Mapping[str, Any]) -> None:
        work, answers = self.work, self.work.folder / ANSWERS
        if work.state != whose:
            if work.state and self._fund is None and any(answers.glob(DRAWN)):
                raise JobError(
                    f"unfinished work in {str(work.folder)!r} is of another job or table: its noisy answers may have "
                    "left this site, and no ledger counts what is drawn again; name another --out, whose answers come "
                    "on top of those, or open a ledger and name it (--ledger)"
                )
            # A ledger has charged what was drawn for another job, and charges this one anew: no sum holds both.
            work.clear()
            work.write_state(whose)
        answers.mkdir(exist_ok=True)

    def answer(self, request: bytes) -> bytes:
        """The reply to one request; once its table is here, a server that was started again gets the verdict again."""
        content, body = unpack(request)
        if content.get("task") != "deliver":
            return self.site.answer(request)
        if not self.is_finished:
            inputs, dropped = self.inputs, content.get("dropped")
            if content.get("job") != inputs.digest or not isinstance(dropped, list):
                raise SitesError(OTHER_JOB)
            # What was drawn here was paid by this site's own books, whatever the server made of the sums.
            known = [name for name in inputs.names if name in dropped]
            own = stated(self.site.budget.statement(inputs.schema), inputs, known)
            self._take(replace(own, ledger=self.paid.note if self.paid else None), body)
            self.is_finished = True
        elif body != (self.out / SYNTHETIC).read_bytes():
            raise SitesError("this site has its table, and the server brings another; begin a new run")
        return pack({"verdict": json.loads((self.out / VERDICT).read_text(encoding="utf-8"))["verdict"]})

    def _take(self, statement: PrivacyStatement, table: bytes) -> None:
        result = self.work.result
        self.work.sweep(ANSWERS, RESERVATION)
        result.mkdir()
        (result / SYNTHETIC).write_bytes(table)
        (result / STATEMENT).write_text(json.dumps(statement.to_dict(), indent=1), encoding="utf-8")
        try:
            self._judge(statement)
        except (EvaluationError, TableError) as error:
            # Too few rows, say: the server hears no refusal. It is no PASS, and the reason stays here.
            content = {"verdict": "INCONCLUSIVE", "reason": str(error), "policy": self.inputs.policy.name}
            (result / VERDICT).write_text(json.dumps(content, indent=1), encoding="utf-8")
        sync_all(result)
        self.work.publish()
        if self.paid:
            self.paid.commit(statement)

    def _judge(self, statement: PrivacyStatement) -> None:
        inputs, result, started, (train, holdout) = self.inputs, self.work.result, provenance.now(), self._sides
        job, schema, chosen = inputs.job, inputs.schema, inputs.generator
        evaluation = evaluate_beside(
            Real.prepare(train, holdout, schema, seed=child_seed(job.seed, "evaluate"), outside="clamp"),
            {ALL_SITES: read_table(result / SYNTHETIC)},
            measures=job.measures,
            progress=self._progress,
            statements={ALL_SITES: statement},
            generators={ALL_SITES: GeneratorRecord.of(chosen.name, chosen.parameters())},
        )
        if job.audit:
            (candidate,) = evaluation.candidates
            seed = child_seed(job.seed, "audit", ALL_SITES)
            audited = audit_claim(
                candidate, lambda: (chosen, schema), seed=seed, time_limit_s=None, progress=self._progress
            )
            evaluation = replace(evaluation, candidates=(audited,))
        known = Provenance(
            warnings=(SITE_WARNING,),
            attempts=count_attempt(self._fingerprint, schema, attempt=secrets.token_hex(8), n_tables=1),
            evaluated_at=started,
            seed=job.seed,
            split=f"keyed hash, seed {child_seed(job.seed, 'split')}",
            fingerprints={"table": self._fingerprint},
        )
        evaluation = replace(evaluation, provenance=provenance.with_inputs(known, inputs.files))
        verdicts = judge(evaluation, [inputs.policy])
        title = f"{job.name or 'The table of several sites'}: {self.name}"
        tables = {ALL_SITES: Path(SYNTHETIC)}
        deliver(Delivery(evaluation, verdicts, inputs.policy, title, ALL_SITES, tables=tables), result)


@dataclass(frozen=True)
class SitesOutcome:
    verdict: str  # the worst of the sites: one that was not heard is no PASS
    exit_code: int
    statement: PrivacyStatement
    verdicts: Mapping[str, str]
    dropped: tuple[str, ...]
    n_sums: int
    seconds: float


def serve(
    inputs: SitesInputs, channel: Channel, out: Path, progress: Progress = quiet, wait_s: float = 0.0,
    say: Callable[[str], None] = lambda _: None,
) -> SitesOutcome:  # fmt: skip
    """Fit, sample, deliver: the whole of a server's part; `wait_s`: for sites that are to join again."""
    check_new_folder(out)
    folder = hidden_beside(out, RUN)
    work = Unfinished(folder, out, folder / "result")
    with work.held(f"another process serves {str(out)!r}; wait for it to end, or name another output"):
        if work.state.get("job") != inputs.digest:  # sums of another job are of no use for this one
            work.clear()
            work.write_state({"job": inputs.digest})
        started = time.monotonic()
        sums = SecureSums(channel, inputs, wait_s, say)
        with Journal(folder / "sums.journal") as journal:
            journal.settle()  # a lost sum is of the same answers of the same sites, or there is none: `record_sum`
            budget = SitesBudget(inputs.schedule, sums, journal)
            if inputs.by_sums:
                rows, seed = RemoteRows(inputs.schema), child_seed(inputs.job.seed, "fit", "sites")
                model = inputs.generator.fit(rows, inputs.schema, seed=seed, progress=progress, budget=budget)
            else:
                (folder / TRAINING).mkdir(exist_ok=True)
                model = fit_network(sums, budget, progress=progress, folder=folder / TRAINING)
        seconds, statement = round(time.monotonic() - started, 3), model.statement
        assert statement is not None  # as the generator has an epsilon
        work.sweep("sums.journal", TRAINING)
        work.result.mkdir()
        progress("drawing the table", None)
        synthetic = model.sample(inputs.job.rows, seed=child_seed(inputs.job.seed, "sample", "sites"))
        write_table(synthetic, work.result / SYNTHETIC, inputs.schema)
        model.save(work.result / "model")
        (work.result / STATEMENT).write_text(json.dumps(statement.to_dict(), indent=1), encoding="utf-8")
        progress("waiting for the sites' verdicts", None)
        content = {"task": "deliver", "job": inputs.digest, "dropped": sorted(budget.dropped)}
        message = pack(content, (work.result / SYNTHETIC).read_bytes())
        replies = channel.ask(dict.fromkeys(channel.sites, message), inputs.job.timeout_s)
        verdicts = {site: verdict_of(replies.get(site, b"")) for site in channel.sites}
        heard, dropped = set(verdicts.values()), tuple(sorted(budget.dropped))
        worst = "FAIL" if "FAIL" in heard else "PASS" if heard == {"PASS"} else "INCONCLUSIVE"
        outcome = SitesOutcome(worst, VERDICTS[worst], statement, verdicts, dropped, sums.n_sums, seconds)
        (work.result / RECORD).write_text(json.dumps(asdict(outcome), indent=1), encoding="utf-8")
        work.publish()
        work.discard()
    return outcome


def run_here(inputs: SitesInputs, out: Path, progress: Progress = quiet) -> SitesOutcome:
    """A run of the server and all sites in this process: `out/server`, and `out/sites/NAME` of each site.

    All is checked first, ledgers included; the sites' rows are kept apart as they are between machines.
    """
    parts = []
    for name, site in inputs.job.sites.items():
        if site.table is None:
            raise JobError(f"sites.{name}.table is missing, and a run on one machine reads it; add it")
        table = site.table if "://" in site.table else str(inputs.home / site.table)
        ledger = ledger_url(site.ledger, inputs.home)
        parts.append(Participant(name, inputs, find_table(table), out / "sites" / name, ledger))
    check_new_folder(out / "server")
    (out / "sites").mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        sites = {part.name: stack.enter_context(part.at_work(progress)) for part in parts}
        return serve(inputs, LocalChannel(sites), out / "server", progress)


def verdict_of(reply: bytes) -> str:
    """The verdict of a reply; one that makes no sense is as good as none."""
    try:
        verdict = unpack(reply)[0].get("verdict")
    except SitesError:
        return NOT_HEARD
    return verdict if isinstance(verdict, str) and verdict in VERDICTS else NOT_HEARD
