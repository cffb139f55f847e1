"""A site's part in a run: its table read and split, its ledger asked, its answers kept, the table judged on its rows.

::

    OUT/                the site's own output
        synthetic.csv   the table of all sites, as the server sent it
        statement.json  its privacy statement, as the server sent it; the ledger's note is the site's own
        report.html ... the evaluation on the site's own rows, which stays here

Until the server has ended its run, the hidden folder beside OUT holds the site's reservation and its noisy answers. The
same command goes on from there. A site whose output is there gives its verdict again.
"""

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from evaluate.engine import evaluate_beside
from evaluate.gate.verdict import judge
from evaluate.provenance import Provenance
from evaluate.result import Evaluation, EvaluationError, GeneratorRecord
from evaluate.tables import Real
from synth.dp.statement import LedgerNote, PrivacyStatement
from synth.errors import JobError, LedgerError, TableError, UnderstudyError
from synth.output import RUN, Unfinished, check_new_folder, hidden_beside, read_state, sync_all, whole_file
from synth.progress import Progress, quiet
from synth.split import Split, split_table
from synth.table import read_table
from synth.table.rows import Rows
from understudy import provenance
from understudy.artifacts import VERDICT, Delivery, deliver
from understudy.budget.account import Fund, open_fund
from understudy.budget.payment import SPENT, Payment, Release, RequestsInMemory
from understudy.data.load import read_rows
from understudy.data.source import RealTable
from understudy.evaluation_log import count_attempt
from understudy.job.seeds import child_seed
from understudy.run.attacks import Trial, audit_trial
from understudy.sites.job import SitesInputs
from understudy.sites.messages import SitesError, pack, unpack
from understudy.sites.site import NoisyAnswers, Site
from understudy.sites.site_training import ROUND
from understudy.sites.training_plan import training_cautions

SYNTHETIC, STATEMENT = "synthetic.csv", "statement.json"
ALL_SITES = "all sites"
"""The name of the synthetic table in evaluations."""
HOLDOUT_SHARE = 0.2


@dataclass(frozen=True)
class SitePart:
    """The part of a site in a run, as it was asked for."""

    name: str
    inputs: SitesInputs
    table: RealTable
    out: Path
    fund: Fund | None


def site_part(name: str, inputs: SitesInputs, table: RealTable, out: Path, ledger: str | None) -> SitePart:
    """The part of a site, or the first thing that is wrong. No row is read and nothing is reserved."""
    if name not in inputs.names:
        raise JobError(f"site={name!r} is none of the job's, which are {', '.join(inputs.names)}; name one of them")
    if not is_delivered(name, inputs, out):
        check_new_folder(out)
    schedule = inputs.schedule
    fund = None if ledger is None or schedule is None else open_fund(ledger, inputs.schema)
    return SitePart(name, inputs, table, out, fund)


def is_delivered(name: str, inputs: SitesInputs, out: Path) -> bool:
    """True of a site's output of this job whose server has not ended its run, so that the site may join again."""
    work = _work(out)
    return work.is_finished and (work.state.get("job"), work.state.get("site")) == (inputs.digest, name)


def _work(out: Path) -> Unfinished:
    folder = hidden_beside(out, RUN)
    return Unfinished(folder, out, folder / "result")


@contextmanager
def taking_part(part: SitePart, progress: Progress = quiet) -> "Iterator[Participant | FinishedSite]":
    """The respondent of a site, as long as the block lasts; its table is read and paid for first."""
    work = _work(part.out)
    with work.held(f"another process takes part as {str(part.out)!r}; wait for it to end, or name another output"):
        if is_delivered(part.name, part.inputs, part.out):
            _commit_again(part, work.folder)
            respondent: Participant | FinishedSite = FinishedSite(part)
            yield respondent
        else:
            respondent = _participant(part, work, progress)
            yield respondent
        if respondent.is_done:
            work.discard()


def _participant(part: SitePart, work: Unfinished, progress: Progress) -> "Participant":
    progress("reading the site's table", None)
    real = read_rows(part.table, part.inputs.schema, "clamp", work.folder)
    print_ = provenance.fingerprint(real, part.inputs.schema, _key())
    _claim(work, {"job": part.inputs.digest, "site": part.name, "table": print_})
    sides = _split(real, part.inputs)
    paid = _Reservation.made(part, work.folder, print_)
    answers = NoisyAnswers(work.folder / "answers")
    site = Site(part.name, part.inputs, sides.train, answers, before_draws=paid.use)
    return Participant(part, site, sides, paid, work, print_, progress)


def _key() -> bytes:
    return provenance.fingerprint_key(provenance.key_path())


def _claim(work: Unfinished, names: Mapping[str, str]) -> None:
    """Take up unfinished work of the same job, site and table, or begin anew."""
    known = {name: work.state.get(name) for name in names} if work.state else {}
    other = [name for name in known if known[name] != names[name]]
    if other:
        raise JobError(
            f"unfinished work stands in the way of {str(work.out)!r}, and it is of another "
            f"{' and another '.join(other)}; finish that first, or remove {str(work.folder)!r} ({SPENT})"
        )
    if not known:
        work.clear()
        work.write_state(names)
    (work.folder / "answers").mkdir(exist_ok=True)


def _split(real: Rows, inputs: SitesInputs) -> Split:
    """Train and holdout of a site, each unit by a hash of its own content or name."""
    seed = child_seed(inputs.job.seed, "split")
    return split_table(real, inputs.schema, holdout_share=HOLDOUT_SHARE, seed=seed, private=True, any_size=True)


class _RequestOnDisk(RequestsInMemory):
    """The request to the ledger, in the site's unfinished work."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._path, self._answers = folder / "reservation.json", folder / "answers"
        self.requests.update(read_state(self._path, {}))

    def write_request(self, label: str, content: Mapping[str, Any]) -> None:
        """Keep a request before the ledger is asked; it is on the disk when this returns."""
        super().write_request(label, content)
        self._write()

    def forget_request(self, label: str) -> None:
        """Drop a request that the ledger did not grant."""
        super().forget_request(label)
        self._write()

    def is_drawn(self, label: str) -> bool:
        """True where a noisy answer is on the disk, or a round of steps was begun."""
        return any(self._answers.glob("[0-9]*.npz")) or (self._answers / ROUND).exists()

    def _write(self) -> None:
        with whole_file(self._path) as beside:
            beside.write_text(json.dumps(self.requests), encoding="utf-8")


@dataclass(frozen=True)
class _Reservation:
    """The entry of a site's ledger for the run; `None` outside a ledger."""

    fund: Fund | None
    token: str | None

    @classmethod
    def made(cls, part: SitePart, folder: Path, fingerprint: str) -> "_Reservation":
        """The reservation: it pays for this run, however often the site is started again."""
        schedule = part.inputs.schedule
        if part.fund is None or schedule is None:
            return cls(None, None)
        name, kept = part.name, _RequestOnDisk(folder)
        what = f"a fit by {part.inputs.generator.name} of several sites"
        Payment(part.fund, part.inputs.schema, {name: Release(schedule, what, f"site={name!r}")}, kept).reserve(
            fingerprint
        )
        request = kept.request(name)
        if request is None:
            raise LedgerError("nothing was reserved, so nothing may be drawn")
        if part.fund.ledger.reservation(request["token"]).state == "committed":
            raise LedgerError(
                "the ledger says that this site finished the run, and its output is not here; begin a new run, or "
                f"restore the output (what was drawn stays spent): site={name!r}"
            )
        return cls(part.fund, request["token"])

    def use(self) -> None:
        """Charge the reservation, before noise is drawn under it for the first time."""
        if self.fund is None or self.token is None:
            return
        if self.fund.ledger.reservation(self.token).state == "reserved":
            self.fund.ledger.use(self.token)

    @property
    def note(self) -> LedgerNote | None:
        """The ledger's note on the release."""
        return None if self.fund is None or self.token is None else self.fund.ledger.note(self.token)

    def commit(self, statement: PrivacyStatement) -> None:
        """Close the reservation: the table is there. A site that drew nothing has paid all the same."""
        self.use()
        if self.fund is not None and self.token is not None:
            self.fund.ledger.commit(self.token, {"epsilon": statement.epsilon, "delta": statement.delta})


def _commit_again(part: SitePart, folder: Path) -> None:
    """Close the reservation of a site that was cut short once its output was there; twice is once."""
    request = _RequestOnDisk(folder).request(part.name)
    path = part.out / STATEMENT
    if request is not None and path.exists():
        statement = PrivacyStatement.from_dict(json.loads(path.read_text(encoding="utf-8")))
        _Reservation(part.fund, request["token"]).commit(statement)


@dataclass
class FinishedSite:
    """The respondent of a site whose output is there: it gives its verdict again."""

    part: SitePart
    is_done: bool = False
    is_finished: Literal[True] = True

    def answer(self, request: bytes) -> bytes:
        """The reply to one request."""
        content, body = unpack(request)
        task = content.get("task")
        if content.get("job") != self.part.inputs.digest:
            raise SitesError("the server's job is not that of this site; use the same job file")
        if task == "hello":
            return pack({"finished": True})
        if task == "done":
            self.is_done = True
            return pack({"done": True})
        if task != "deliver" or body != (self.part.out / SYNTHETIC).read_bytes():
            raise SitesError(
                "this site has its table and its verdict, and the server asks for more or brings another table; remove "
                f"the output of site={self.part.name!r} to begin anew ({SPENT})"
            )
        return pack({"verdict": _verdict(self.part.out)})


@dataclass
class Participant:
    """A site's respondent: noisy answers while the fit lasts, then the verdict on the table that came of it.

    Attributes:
        sides: *Sensitive*. Its train and holdout rows.
    """

    part: SitePart
    site: Site
    sides: Split = field(repr=False)
    paid: _Reservation
    work: Unfinished
    fingerprint: str
    progress: Progress
    finished: FinishedSite | None = None

    @property
    def is_finished(self) -> bool:
        """True once the output is there."""
        return self.finished is not None

    @property
    def is_done(self) -> bool:
        """True once the server has ended its run."""
        return self.finished is not None and self.finished.is_done

    def answer(self, request: bytes) -> bytes:
        """The reply to one request."""
        if self.finished is not None:
            return self.finished.answer(request)
        content, body = unpack(request)
        if content.get("task") == "done":
            raise SitesError("the server has ended its run, and this site has no table; begin a new run")
        if content.get("task") != "deliver":
            return self.site.answer(request)
        self._take(self._checked(content), body)
        self.finished = FinishedSite(self.part)
        return self.finished.answer(request)

    def _take(self, statement: PrivacyStatement | None, table: bytes) -> None:
        """Make the output of a table, and close the reservation."""
        self.work.sweep("answers", "reservation.json")
        self.work.result.mkdir()
        (self.work.result / SYNTHETIC).write_bytes(table)
        if statement is not None:
            text = json.dumps(statement.to_dict(), indent=1)
            (self.work.result / STATEMENT).write_text(text, encoding="utf-8")
        try:
            self._judge(statement)
        except (EvaluationError, TableError) as error:  # too few rows, say: it must not show before the table is there
            self._note_unjudged(error)
        sync_all(self.work.result)
        self.work.publish()
        if statement is not None:
            self.paid.commit(statement)

    def _checked(self, content: Mapping[str, Any]) -> PrivacyStatement | None:
        """The statement, which claims what this site has planned itself; `None` where nothing is promised."""
        if content.get("job") != self.part.inputs.digest:
            raise SitesError("the table is of another job than this site's; use the same job file")
        if not self.part.inputs.generator.promises and content.get("statement") is None:
            return None
        try:
            statement = PrivacyStatement.from_dict(content["statement"])
        except (ValueError, KeyError, TypeError):
            raise SitesError("the table comes without a privacy statement that can be read; send it again") from None
        planned = tuple(event.record() for event in self.site.schedule.events)
        if statement.events != planned or statement.epsilon < self.site.schedule.epsilon:
            raise SitesError(
                f"the statement claims epsilon={statement.epsilon:g} by other events than this site paid for, "
                f"epsilon={self.site.schedule.epsilon:g}; correct the server"
            )
        return replace(statement, ledger=self.paid.note)

    def _judge(self, statement: PrivacyStatement | None) -> None:
        """The evaluation on the site's own rows, in its output."""
        inputs, folder = self.part.inputs, self.work.result
        chosen = inputs.generator
        started = provenance.now()
        real = self._real()
        evaluation = evaluate_beside(
            real,
            {ALL_SITES: read_table(folder / SYNTHETIC)},
            measures=inputs.job.measures,
            time_limit_s=inputs.job.measure_limit_s,
            progress=self.progress,
            statements={} if statement is None else {ALL_SITES: statement},
            generators={ALL_SITES: GeneratorRecord.of(chosen.name, chosen.parameters())},
        )
        self._deliver(evaluation, started)

    def _audited(self, evaluation: Evaluation) -> Evaluation:
        """The same with an audit of the claim, where the job asks for one."""
        inputs, chosen = self.part.inputs, self.part.inputs.generator
        if not inputs.job.audit:
            return evaluation
        seed = child_seed(inputs.job.seed, "audit", ALL_SITES)
        trial = Trial(chosen, inputs.schema, seed, inputs.job.measure_limit_s)
        candidates = tuple(audit_trial(one, trial, self.progress) for one in evaluation.candidates)
        return replace(evaluation, candidates=candidates)

    def _deliver(self, evaluation: Evaluation, started: str) -> None:
        """The report and the verdict, in the site's output."""
        inputs = self.part.inputs
        attempts = count_attempt(self.fingerprint, inputs.schema, attempt=secrets.token_hex(8), n_tables=1)
        known = Provenance(
            warnings=(SITE_WARNING, *training_cautions(inputs)),
            attempts=attempts,
            evaluated_at=started,
            seed=inputs.job.seed,
            # The site split its rows itself, and what it showed was paid by this statement's events: its rows are
            # protected as is claimed, whatever the server made of the sums.
            split=f"keyed hash, seed {child_seed(inputs.job.seed, 'split')}",
            fingerprints={"table": self.fingerprint},
        )
        evaluation = replace(self._audited(evaluation), provenance=provenance.with_inputs(known, inputs.given))
        verdicts = judge(evaluation, [inputs.policy])
        title = f"{inputs.job.name or 'The table of several sites'}: {self.part.name}"
        delivered = Delivery(evaluation, verdicts, inputs.policy, title, ALL_SITES, tables={ALL_SITES: Path(SYNTHETIC)})
        deliver(delivered, self.work.result)

    def _note_unjudged(self, error: UnderstudyError) -> None:
        """The verdict where nothing could be measured: it is no PASS, and the reason stays here."""
        content = {"verdict": "INCONCLUSIVE", "reason": str(error), "policy": self.part.inputs.policy.name}
        (self.work.result / VERDICT).write_text(json.dumps(content, indent=1), encoding="utf-8")

    def _real(self) -> Real:
        seed = child_seed(self.part.inputs.job.seed, "evaluate")
        sides, schema = self.sides, self.part.inputs.schema
        return Real.prepare(sides.train, sides.holdout, schema, seed=seed, outside="clamp")


SITE_WARNING = (
    "the synthetic table is of all sites together, and it is measured on the rows of this site alone: where this site "
    "is unlike the others, distances are large for that reason"
)


def _verdict(out: Path) -> str:
    """The verdict in a site's output."""
    found = json.loads((out / VERDICT).read_text(encoding="utf-8"))["verdict"]
    if found not in ("PASS", "FAIL", "INCONCLUSIVE"):
        raise UnderstudyError("the verdict of this site cannot be read")
    return str(found)
