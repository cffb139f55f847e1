"""The server's part in a run of several sites: fit to sums, draw, hand the table to the sites, hear their verdicts.

OUT holds synthetic.csv, model/, statement.json and sites.json, in which verdicts, seconds and who was late follow from
real rows outside the guarantee: it stays inside. Until it is whole, the hidden folder beside OUT holds the sums that
were shown, and the same command goes on from these. A sum that was lost is asked for again: sites show the same answers
in a sum of the same sites alone.
"""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from synth.dp.noise_journal import Journal
from synth.dp.statement import PrivacyStatement
from synth.errors import JobError
from synth.generators.models.model import Model
from synth.output import RUN, Unfinished, check_new_folder, hidden_beside
from synth.progress import Progress, quiet
from synth.table import write_table
from understudy.budget import ledger_url
from understudy.console import VERDICTS
from understudy.data import find_table
from understudy.extras.sites.channel import Channel, LocalChannel, SitesError, pack, unpack
from understudy.extras.sites.job import SitesInputs
from understudy.extras.sites.participant import STATEMENT, SYNTHETIC, Participant
from understudy.extras.sites.remote_table import RemoteRows, SecureSums, SitesBudget
from understudy.extras.sites.training import fit_network
from understudy.job import child_seed

RECORD, TRAINING = "sites.json", "training"
NOT_HEARD = "not heard"  # in place of a verdict, of a site that is gone or late


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
    inputs: SitesInputs,
    channel: Channel,
    out: Path,
    progress: Progress = quiet,
    wait_s: float = 0.0,
    say: Callable[[str], None] = lambda _: None,
) -> SitesOutcome:
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
        model, budget = _fit(inputs, sums, folder, progress)
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


def _fit(inputs: SitesInputs, sums: SecureSums, folder: Path, progress: Progress) -> tuple[Model, SitesBudget]:
    with Journal(folder / "sums.journal") as journal:
        journal.settle()  # a lost sum is of the same answers of the same sites, or there is none: `record_sum`
        budget = SitesBudget(inputs.schedule, sums, journal)
        if not inputs.by_sums:
            (folder / TRAINING).mkdir(exist_ok=True)
            return fit_network(sums, budget, progress=progress, folder=folder / TRAINING), budget
        seed = child_seed(inputs.job.seed, "fit", "sites")
        rows = RemoteRows(inputs.schema)
        return inputs.generator.fit(rows, inputs.schema, seed=seed, progress=progress, budget=budget), budget


def verdict_of(reply: bytes) -> str:
    """The verdict of a reply; one that makes no sense is as good as none."""
    try:
        verdict = unpack(reply)[0].get("verdict")
    except SitesError:
        return NOT_HEARD
    return verdict if isinstance(verdict, str) and verdict in VERDICTS else NOT_HEARD
