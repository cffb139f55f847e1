"""The server's part in a run of several sites: fit to sums, draw, hand the table to the sites, hear their verdicts.

::

    OUT/
        synthetic.csv   one table of all sites
        model/          the model, as every fit saves it
        statement.json  its privacy statement
        sites.json      verdicts, sums, bytes and seconds. Verdicts, seconds and who was late follow from real rows
                        outside the guarantee: it stays inside

Until it is whole, the hidden folder beside OUT holds the sums that were shown. The same command goes on from these. A
sum that was lost is asked for again, and sites show the same answers in a sum of the same sites alone. Sites that have
their table already join again, and give the same verdict.
"""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from synth.dp.noise_journal import Journal
from synth.dp.statement import PrivacyStatement
from synth.errors import BudgetError, JobError
from synth.generators.base import Model
from synth.output import RUN, Unfinished, check_new_folder, hidden_beside
from synth.progress import Progress, quiet
from synth.table import write_table
from understudy.budget.payment import SPENT
from understudy.console import VERDICTS
from understudy.job.seeds import child_seed
from understudy.sites.channel import Channel, ChannelError
from understudy.sites.job import SitesInputs
from understudy.sites.messages import SitesError, pack, unpack
from understudy.sites.participant import STATEMENT, SYNTHETIC
from understudy.sites.remote_table import RemoteTable, SitesBudget
from understudy.sites.secure_sum import SecureSums
from understudy.sites.server_training import fit_network
from understudy.sites.training_plan import training_cautions, training_plan

MODEL, RECORD, TRAINING = "model", "sites.json", "training"
NOT_HEARD = "not heard"
"""In place of a verdict, of a site that is gone or late."""
WORST_FIRST = ("FAIL", NOT_HEARD, "INCONCLUSIVE", "PASS")


@dataclass(frozen=True)
class SitesOutcome:
    """The outcome of a run of several sites."""

    statement: PrivacyStatement | None
    verdicts: Mapping[str, str]
    dropped: tuple[str, ...]
    n_sums: int
    seconds: float
    traffic: Mapping[str, Mapping[str, int]]
    cautions: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The worst of the sites' verdicts: one that was not heard is no PASS."""
        worst = next((one for one in WORST_FIRST if one in self.verdicts.values()), NOT_HEARD)
        return "INCONCLUSIVE" if worst == NOT_HEARD else worst

    @property
    def exit_code(self) -> int:
        """By the worst verdict."""
        return VERDICTS[self.verdict]

    def content(self) -> dict[str, Any]:
        """The outcome as plain data."""
        return {
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "verdicts": dict(self.verdicts),
            "dropped": list(self.dropped),
            "n_sums": self.n_sums,
            "seconds": round(self.seconds, 3),
            "traffic": {site: dict(counts) for site, counts in self.traffic.items()},
            "statement": None if self.statement is None else self.statement.to_dict(),
            "cautions": list(self.cautions),
        }


def serve(inputs: SitesInputs, channel: Channel, out: Path, progress: Progress = quiet) -> SitesOutcome:
    """Fit, sample, deliver: the whole of a server's part."""
    if channel.sites != inputs.names:
        raise JobError(f"the job names sites={list(inputs.names)}, and these are here: {list(channel.sites)}")
    check_new_folder(out)
    folder = hidden_beside(out, RUN)
    work = Unfinished(folder, out, folder / "result")
    with work.held(f"another process serves {str(out)!r}; wait for it to end, or name another output"):
        _claim(work, inputs)
        started = time.monotonic()
        model, budget, n_sums = _fit(inputs, channel, folder, progress)
        seconds = time.monotonic() - started
        work.sweep("sums.journal", TRAINING)
        work.result.mkdir()
        progress("drawing the table", None)
        _write(model, inputs, work.result)
        progress("waiting for the sites' verdicts", None)
        verdicts = _deliver(inputs, channel, (work.result / SYNTHETIC).read_bytes(), model.statement)
        traffic = {site: asdict(counts) for site, counts in channel.traffic.items()}
        dropped = tuple(sorted(budget.dropped))
        cautions = training_cautions(inputs)
        outcome = SitesOutcome(model.statement, verdicts, dropped, n_sums, seconds, traffic, cautions)
        (work.result / RECORD).write_text(json.dumps(outcome.content(), indent=1), encoding="utf-8")
        work.publish()
        work.discard()
    with suppress(ChannelError):  # sites keep what they need to join again, and no more
        channel.ask(dict.fromkeys(channel.sites, pack({"task": "done", "job": inputs.digest})), inputs.job.timeout_s)
    return outcome


def _write(model: Model, inputs: SitesInputs, folder: Path) -> None:
    """The table, the model and its statement."""
    synthetic = model.sample(inputs.job.rows, seed=child_seed(inputs.job.seed, "sample", "sites"))
    write_table(synthetic, folder / SYNTHETIC, inputs.schema)
    model.save(folder / MODEL)
    if model.statement is not None:
        text = json.dumps(model.statement.to_dict(), indent=1)
        (folder / STATEMENT).write_text(text, encoding="utf-8")


def are_enough(inputs: SitesInputs, channel: Channel) -> bool:
    """True where as many sites answer as a sum needs."""
    hello = pack({"task": "hello", "job": inputs.digest})
    return len(channel.ask(dict.fromkeys(channel.sites, hello), inputs.job.timeout_s)) >= inputs.job.threshold


def _claim(work: Unfinished, inputs: SitesInputs) -> None:
    """Take up unfinished work of the same job, or begin anew."""
    known = work.state.get("job")
    if known is not None and known != inputs.digest:
        raise JobError(
            f"unfinished work stands in the way of {str(work.out)!r}, and it is of another job; finish that first, or "
            f"remove {str(work.folder)!r} ({SPENT})"
        )
    if known is None:
        work.clear()
        work.write_state({"job": inputs.digest})


def _fit(inputs: SitesInputs, channel: Channel, folder: Path, progress: Progress) -> tuple[Model, SitesBudget, int]:
    schedule = inputs.schedule if inputs.by_sums else training_plan(inputs).schedule
    if schedule is None:
        raise BudgetError("several sites add noise to what they show, and the generator has no epsilon; set one")
    sums = SecureSums(channel, inputs)
    with Journal(folder / "sums.journal") as journal:
        journal.settle()  # a lost sum is of the same answers of the same sites, or there is none: `record_sum`
        budget = SitesBudget(schedule, sums, journal)
        if not inputs.by_sums:
            network = fit_network(sums, budget, progress=progress, place=folder / TRAINING)
            return network, budget, len(sums.records)
        seed = child_seed(inputs.job.seed, "fit", "sites")
        model = inputs.generator.fit(
            RemoteTable(),
            inputs.schema,
            seed=seed,
            progress=progress,
            budget=budget,
        )
    return model, budget, len(sums.records)


def _deliver(inputs: SitesInputs, channel: Channel, table: bytes, statement: PrivacyStatement | None) -> dict[str, str]:
    """The table at every site, and the verdicts that come back."""
    content = {
        "task": "deliver",
        "job": inputs.digest,
        "statement": None if statement is None else statement.to_dict(),
    }
    message = pack(content, table)
    replies = channel.ask(dict.fromkeys(channel.sites, message), inputs.job.timeout_s)
    return {site: _verdict_of(replies.get(site, b"")) for site in channel.sites}


def _verdict_of(reply: bytes) -> str:
    """The verdict of a reply; one that makes no sense is as good as none."""
    try:
        verdict = unpack(reply)[0].get("verdict")
    except SitesError:
        return NOT_HEARD
    return verdict if isinstance(verdict, str) and verdict in VERDICTS else NOT_HEARD
