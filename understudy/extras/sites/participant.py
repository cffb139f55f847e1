"""A site's part in a run: its table read and split, its ledger asked, its answers kept, the table judged on its rows.

OUT holds synthetic.csv as the server sent it, statement.json by this site's own books, and the evaluation on the site's
own rows, which stays here. Until it has its table, the hidden folder beside OUT holds the site's reservation and its
noisy answers. The same command goes on from there; another job or table begins anew.
"""

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from evaluate.engine import evaluate_beside
from evaluate.gate.verdict import judge
from evaluate.provenance import Provenance
from evaluate.result import EvaluationError, GeneratorRecord
from evaluate.tables import Real
from synth.dp.statement import LedgerNote, PrivacyStatement
from synth.errors import JobError, TableError
from synth.output import RUN, Unfinished, check_new_folder, hidden_beside, read_state, sync_all, whole_file
from synth.progress import Progress, quiet
from synth.split import Split, split_table
from synth.table import read_table
from understudy import provenance
from understudy.artifacts import VERDICT, Delivery, deliver
from understudy.budget.account import Fund, open_fund
from understudy.budget.payment import Payment, Release, RequestsInMemory
from understudy.data.load import read_rows
from understudy.data.source import RealTable
from understudy.evaluation_log import count_attempt
from understudy.extras.sites.job import SitesInputs
from understudy.extras.sites.messages import SitesError, pack, unpack
from understudy.extras.sites.remote_table import stated
from understudy.extras.sites.site import OTHER_JOB, NoisyAnswers, Site
from understudy.extras.sites.training import ROUND
from understudy.job.seeds import child_seed
from understudy.run.attacks import Trial, audit_trial

SYNTHETIC, STATEMENT, ANSWERS = "synthetic.csv", "statement.json", "answers"
ALL_SITES = "all sites"
"""The name of the synthetic table in evaluations."""
HOLDOUT_SHARE = 0.2
SITE_WARNING = (
    "the synthetic table is of all sites together, and it is measured on the rows of this site alone: where this site "
    "is unlike the others, distances are large for that reason"
)


class SitePart(NamedTuple):
    name: str
    inputs: SitesInputs
    table: RealTable
    out: Path
    fund: Fund | None


def site_part(name: str, inputs: SitesInputs, table: RealTable, out: Path, ledger: str | None) -> SitePart:
    """The part of a site, or the first thing that is wrong. No row is read and nothing is reserved."""
    if name not in inputs.names:
        raise JobError(f"site={name!r} is none of the job's, which are {', '.join(inputs.names)}; name one of them")
    check_new_folder(out)
    return SitePart(name, inputs, table, out, None if ledger is None else open_fund(ledger, inputs.schema))


@contextmanager
def taking_part(part: SitePart, progress: Progress = quiet) -> "Iterator[Participant]":
    """The respondent of a site, as long as the block lasts; its table is read and paid for first."""
    folder = hidden_beside(part.out, RUN)
    work = Unfinished(folder, part.out, folder / "result")
    with work.held(f"another process takes part as {str(part.out)!r}; wait for it to end, or name another output"):
        progress("reading the site's table", None)
        real = read_rows(part.table, part.inputs.schema, "clamp", folder)
        print_ = provenance.fingerprint(
            real, part.inputs.schema, provenance.fingerprint_key(provenance.key_path())
        )  # fmt: skip
        whose = {"job": part.inputs.digest, "site": part.name, "table": print_}
        if work.state != whose:
            if work.state and part.fund is None and is_drawn(folder / ANSWERS):
                raise JobError(
                    f"unfinished work in {str(folder)!r} is of another job or table: its noisy answers may have left "
                    "this site, and no ledger counts what is drawn again; name another --out, whose answers come on "
                    "top of those, or open a ledger and name it (--ledger)"
                )
            # A ledger has charged what was drawn for another job, and charges this one anew: no sum holds both.
            work.clear()
            work.write_state(whose)
        (folder / ANSWERS).mkdir(exist_ok=True)
        seed = child_seed(part.inputs.job.seed, "split")
        sides = split_table(
            real, part.inputs.schema, holdout_share=HOLDOUT_SHARE, seed=seed, private=True, any_size=True
        )  # fmt: skip
        paid = Reservation(part, folder, print_)
        site = Site(part.name, part.inputs, sides.train, NoisyAnswers(folder / ANSWERS), before_draws=paid.use)
        respondent = Participant(part, site, sides, paid, work, print_, progress)
        yield respondent
        if respondent.is_finished:
            work.discard()


def is_drawn(answers: Path) -> bool:
    """True where a noisy answer is on the disk, or a round of steps was begun."""
    return any(answers.glob("[0-9]*.npz")) or (answers / ROUND).exists()


class Reservation(RequestsInMemory):
    """The entry of a site's ledger for the run: it pays for this run, however often the site is started again."""

    def __init__(self, part: SitePart, folder: Path, fingerprint: str) -> None:
        super().__init__()
        self._path, self._answers, self._fund = folder / "reservation.json", folder / ANSWERS, part.fund
        self.requests.update(read_state(self._path, {}))
        self._token: str | None = None
        if part.fund is None:
            return
        release = Release(
            part.inputs.schedule, f"a fit by {part.inputs.generator.name} of several sites", f"site={part.name!r}"
        )
        Payment(part.fund, part.inputs.schema, {part.name: release}, self).reserve(fingerprint)
        self._token = str(self.requests[part.name]["token"])

    def write_request(self, label: str, content: Mapping[str, Any]) -> None:
        """Keep a request before the ledger is asked; it is on the disk when this returns."""
        super().write_request(label, content)
        self._write()

    def forget_request(self, label: str) -> None:
        super().forget_request(label)
        self._write()

    def is_drawn(self, label: str) -> bool:
        return is_drawn(self._answers)

    def _write(self) -> None:
        with whole_file(self._path) as beside:
            beside.write_text(json.dumps(self.requests), encoding="utf-8")

    def use(self) -> None:
        """Charge the reservation, before noise is drawn under it for the first time."""
        if self._fund is None or self._token is None:
            return
        if self._fund.ledger.reservation(self._token).state == "reserved":
            self._fund.ledger.use(self._token)

    @property
    def note(self) -> LedgerNote | None:
        return None if self._fund is None or self._token is None else self._fund.ledger.note(self._token)

    def commit(self, statement: PrivacyStatement) -> None:
        """Close the reservation: the table is there. A site that drew nothing has paid all the same."""
        self.use()
        if self._fund is not None and self._token is not None:
            self._fund.ledger.commit(self._token, {"epsilon": statement.epsilon, "delta": statement.delta})


@dataclass
class Participant:
    """A site's respondent: noisy answers while the fit lasts, then the verdict on the table that came of it."""

    part: SitePart
    site: Site
    sides: Split = field(repr=False)
    paid: Reservation
    work: Unfinished
    fingerprint: str
    progress: Progress
    is_finished: bool = False

    def answer(self, request: bytes) -> bytes:
        """The reply to one request; once its table is here, a server that was started again gets the verdict again."""
        content, body = unpack(request)
        if content.get("task") != "deliver":
            return self.site.answer(request)
        out = self.part.out
        if not self.is_finished:
            inputs, dropped = self.part.inputs, content.get("dropped")
            if content.get("job") != inputs.digest or not isinstance(dropped, list):
                raise SitesError(OTHER_JOB)
            # What was drawn here was paid by this site's own books, whatever the server made of the sums.
            own = stated(
                self.site.budget.statement(inputs.schema), inputs, [one for one in inputs.names if one in dropped]
            )
            self._take(replace(own, ledger=self.paid.note), body)
            self.is_finished = True
        elif body != (out / SYNTHETIC).read_bytes():
            raise SitesError("this site has its table, and the server brings another; begin a new run")
        return pack({"verdict": json.loads((out / VERDICT).read_text(encoding="utf-8"))["verdict"]})

    def _take(self, statement: PrivacyStatement, table: bytes) -> None:
        result = self.work.result
        self.work.sweep(ANSWERS, "reservation.json")
        result.mkdir()
        (result / SYNTHETIC).write_bytes(table)
        (result / STATEMENT).write_text(json.dumps(statement.to_dict(), indent=1), encoding="utf-8")
        try:
            self._judge(statement)
        except (EvaluationError, TableError) as error:
            # Too few rows, say: the server hears no refusal. It is no PASS, and the reason stays here.
            content = {"verdict": "INCONCLUSIVE", "reason": str(error), "policy": self.part.inputs.policy.name}
            (result / VERDICT).write_text(json.dumps(content, indent=1), encoding="utf-8")
        sync_all(result)
        self.work.publish()
        self.paid.commit(statement)

    def _judge(self, statement: PrivacyStatement) -> None:
        inputs, result, started = self.part.inputs, self.work.result, provenance.now()
        job, schema, chosen = inputs.job, inputs.schema, inputs.generator
        seeds = {what: child_seed(job.seed, what) for what in ("evaluate", "split")}
        evaluation = evaluate_beside(
            Real.prepare(self.sides.train, self.sides.holdout, schema, seed=seeds["evaluate"], outside="clamp"),
            {ALL_SITES: read_table(result / SYNTHETIC)},
            measures=job.measures,
            progress=self.progress,
            statements={ALL_SITES: statement},
            generators={ALL_SITES: GeneratorRecord.of(chosen.name, chosen.parameters())},
        )
        if job.audit:
            trial = Trial(chosen, schema, child_seed(job.seed, "audit", ALL_SITES))
            audited = tuple(audit_trial(one, trial, self.progress) for one in evaluation.candidates)
            evaluation = replace(evaluation, candidates=audited)
        known = Provenance(
            warnings=(SITE_WARNING,),
            attempts=count_attempt(self.fingerprint, schema, attempt=secrets.token_hex(8), n_tables=1),
            evaluated_at=started,
            seed=job.seed,
            split=f"keyed hash, seed {seeds['split']}",
            fingerprints={"table": self.fingerprint},
        )
        evaluation = replace(evaluation, provenance=provenance.with_inputs(known, inputs.given))
        verdicts = judge(evaluation, [inputs.policy])
        title = f"{job.name or 'The table of several sites'}: {self.part.name}"
        tables = {ALL_SITES: Path(SYNTHETIC)}
        deliver(Delivery(evaluation, verdicts, inputs.policy, title, ALL_SITES, tables=tables), result)
