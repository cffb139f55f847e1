"""Candidates as the work of an executor: each process makes those that it is told to, from where an earlier one ended.

A process reads the table itself, by a connection of its own where the table is stored. It shares nothing with the
others but the workspace on the disk, where each candidate has files of its own, and the ledger, which takes turns.
"""

import logging
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from synth.errors import LedgerError, UnderstudyError
from synth.progress import Progress
from understudy.run.plan import Plan, with_fund
from understudy.run.workspace import RunWorkspace

if TYPE_CHECKING:
    from understudy.run.candidates import CandidateContext, Stage

SHARES = {"fit": (0.0, 0.5), "sample": (0.5, 0.1), "evaluate": (0.6, 0.3), "audit": (0.9, 0.1)}
"""The start and the share of each stage in a candidate, roughly: for a progress bar."""


@dataclass(frozen=True)
class CandidateWork:
    """The `Work` of making candidates; what a process cannot be handed, it opens anew.

    Attributes:
        plan: without an open ledger, and without the fingerprint's key, which nobody needs who makes candidates.
        work: keeps what is done.
        ledger: that pays, without credentials; none: nobody does.
        debug: whether internal errors show where they happened; that may hold values of the table.
    """

    plan: Plan
    work: RunWorkspace
    ledger: str | None
    debug: bool

    def begin(self, until_the_end: ExitStack, tell: Progress) -> Callable[[str], str]:
        """The function that makes a candidate by its label; the table is read with the first."""
        if not self.debug:
            # Warnings and logs of libraries may quote values of the table.
            warnings.simplefilter("ignore")
            logging.getLogger().addHandler(logging.NullHandler())
        bench = None

        def make(label: str) -> str:
            nonlocal bench
            try:
                bench = bench or self._bench(until_the_end, tell)
                from understudy.run.candidates import finish

                finish(bench, label)
            except UnderstudyError as error:
                return str(error).rstrip(".")
            except MemoryError:
                return "there was not enough memory; use fewer workers"
            except Exception as error:  # noqa: BLE001 - the outermost place of a process
                if self.debug:
                    traceback.print_exc()
                return f"an internal error, {type(error).__name__}; please report it"
            return ""

        return make

    def _bench(self, until_the_end: ExitStack, tell: Progress) -> "CandidateContext":
        """The context of candidates, read anew: the same sides from the same seed."""
        from understudy.run import stages
        from understudy.run.candidates import CandidateContext

        plan = self.plan if self.ledger is None else with_fund(self.plan)
        if plan.fund is not None and plan.fund.place != self.ledger:
            raise LedgerError(
                "a worker's environment names another ledger than the one that this run was paid from; name the same"
            )
        real = until_the_end.enter_context(stages.read(plan))
        return CandidateContext(plan, self.work, stages.split(plan, real), _telling(tell))


def _telling(told: Progress) -> "Stage":
    """Stages that tell how far a candidate is."""

    @contextmanager
    def stage(name: str) -> Iterator[Progress]:
        start, width = SHARES.get(name.partition(" ")[0], (0.9, 0.1))

        def tell(label: str, share: float | None) -> None:
            told(name, start + width * (share or 0.0))

        tell(name, 0.0)
        yield tell

    return stage
