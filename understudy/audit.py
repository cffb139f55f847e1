"""The audit of a claim without a run: by the measurement log, by synthetic tables alone, and what both come to."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from evaluate.audit_result import EXCEEDS, LEAST_STRENGTH, NO_FAULT, TOO_WEAK, Audit
from evaluate.privacy.audit.black_box import BlackBox, Trials, black_box, paired
from evaluate.privacy.audit.neighboring_tables import Worlds
from evaluate.privacy.shadow_models import Budgets
from synth.dp.budget import Budget
from synth.dp.schedule import Schedule
from synth.errors import JobError, LedgerError
from synth.generators.base import Generator, Model, PrivateGenerator
from synth.progress import Progress
from synth.schema import Schema
from synth.table import read_table
from understudy import provenance
from understudy.budget.account import Fund, ledger_url, open_fund
from understudy.console import DONE, FAILED, INCONCLUSIVE
from understudy.job.seeds import child_seed
from understudy.run.attacks import claimed_generator, specification_of
from understudy.run.reservation import make_request

if TYPE_CHECKING:
    from synth.dp.ledger import Request

NO_CLAIM = "nothing is claimed"
_CODES = {EXCEEDS: FAILED, TOO_WEAK: INCONCLUSIVE, NO_FAULT: DONE, NO_CLAIM: DONE}


@dataclass(frozen=True)
class Inquiry:
    """What is to be audited, and how.

    Attributes:
        generator: with the epsilon and delta that are claimed, or without.
        schema: gives the unit, k and n_units, and a black-box audit's columns.
        seed: of all draws but private noise.
        confidence: of each bound.
        time_limit_s: of each audit; `None`: no limit.
        white_box: whether the measurement log is audited.
        black_box_fits: fits of a black-box audit; `None`: there is none.
        public_table: file that the black-box audit is made on, asserted to be public; `None`: a stand-in.
        train: *Sensitive*. File of real rows that it is made on; `None`: not on real rows.
        ledger: path or URL of what pays for fits on real rows; `None`: the environment's.
    """

    generator: Generator
    schema: Schema
    seed: int = 0
    confidence: float | None = None
    time_limit_s: float | None = None
    white_box: bool = True
    black_box_fits: int | None = None
    public_table: Path | None = None
    train: Path | None = None
    ledger: str | None = None

    def __post_init__(self) -> None:
        if self.black_box_fits is None and (self.public_table is not None or self.train is not None):
            raise JobError("a table is for the black-box audit, and none is asked for; pass --black-box N_FITS")
        if self.public_table is not None and self.train is not None:
            raise JobError("a table is public or it is not; pass one of --public-table and --train")
        if self.ledger is not None and self.train is None:
            raise JobError("a ledger pays for fits on real rows, and none are named; pass --train, or no --ledger")
        if not self.generator.promises and self.black_box_fits is None:
            raise JobError(
                f"an audit needs a claim, and generator={self.generator.name!r} has no epsilon; set --epsilon, or pass "
                "--black-box N_FITS for what its tables give away"
            )
        if not self.white_box and self.black_box_fits is None:
            raise JobError("nothing is left to audit; leave out --no-white-box, or pass --black-box N_FITS")


@dataclass(frozen=True)
class AuditAnswer:
    """What came of it.

    Attributes:
        white_box: of the measurement log; `None`: there is no claim, or it was not asked for.
        black_box: of synthetic tables; `None`: it was not asked for.
        warnings: of the ledger that pays for fits on real rows.
    """

    white_box: Audit | None
    black_box: BlackBox | None
    warnings: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The claim is disproved by either; what only one of them could have shown stays open."""
        if self.black_box is not None and self.black_box.exceeds:
            return EXCEEDS
        if self.white_box is not None:
            return self.white_box.verdict
        assert self.black_box is not None
        if self.black_box.epsilon is None:
            return NO_CLAIM
        could_show = LEAST_STRENGTH * self.black_box.epsilon
        return NO_FAULT if self.black_box.strongest >= could_show else TOO_WEAK

    @property
    def exit_code(self) -> int:
        """What a command ends with."""
        return _CODES[self.verdict]

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain data."""
        white, black = (None if one is None else one.to_dict() for one in (self.white_box, self.black_box))
        said = {"verdict": self.verdict, "exit_code": self.exit_code, "warnings": list(self.warnings)}
        return {**said, "white_box": white, "black_box": black}


def of_model(model: Model) -> Generator:
    """The generator and parameters of a saved model, with the epsilon that its statement claims.

    Raises:
        AuditError: the parameters are of another claim than the statement's.
        ModelError: the model does not hold them.
    """
    return specification_of(model) if model.statement is None else claimed_generator(model, model.statement)


def inquire(asked: Inquiry, progress: Progress) -> AuditAnswer:
    """The audits that were asked for.

    Args:
        asked: what to do.
        progress: told the share done.

    Raises:
        AuditError: there is nothing that an audit understands, or too little time.
        BudgetError: the schema or the budget does not allow the claim.
        LedgerError: the fits on real rows are not paid for; nothing was fitted on any real row.
        TableError: a table cannot be read.
    """
    asked.generator.check(asked.schema)
    # Before anything that takes long: what is refused is refused at once.
    paid = _Payment.of(asked)
    arena = None if asked.black_box_fits is None else _Arena.of(asked)
    white = _white_box(asked, progress)
    if arena is None:
        return AuditAnswer(white, None)
    budgets, warnings = (None, ()) if paid is None else paid.reserved(asked, arena.worlds.table(present=True))
    found = black_box(asked.generator, arena.worlds, arena.trials, budgets=budgets, progress=progress)
    return AuditAnswer(white, found, warnings)


def _white_box(asked: Inquiry, progress: Progress) -> Audit | None:
    if not asked.white_box or not isinstance(asked.generator, PrivateGenerator) or not asked.generator.promises:
        return None
    from evaluate.privacy.audit.white_box import audit

    given: Mapping[str, float | None] = {"confidence": asked.confidence, "time_limit_s": asked.time_limit_s}
    known: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    seed = child_seed(asked.seed, "audit", asked.generator.name)
    return audit(asked.generator, asked.schema, seed=seed, progress=progress, **known)


@dataclass(frozen=True)
class _Arena:
    """What a black-box audit is made on, and how often."""

    worlds: Worlds
    trials: Trials

    @classmethod
    def of(cls, asked: Inquiry) -> "_Arena":
        assert asked.black_box_fits is not None
        seed = child_seed(asked.seed, "black box", asked.generator.name)
        known = {} if asked.confidence is None else {"confidence": asked.confidence}
        trials = Trials(asked.black_box_fits, time_limit_s=asked.time_limit_s, seed=seed, **known)
        path = asked.public_table or asked.train
        if path is None:
            return cls(Worlds.stand_in(asked.schema, seed=seed), trials)
        table = read_table(path, asked.schema)
        called = "real rows" if asked.train is not None else f"{len(table):,} rows that are said to be public"
        return cls(Worlds.around(table, asked.schema, called=called), trials)


@dataclass(frozen=True)
class _Payment:
    """What pays for the private fits of an audit on real rows: each is a fit that is never released."""

    fund: Fund
    schedule: Schedule
    n_fits: int

    @classmethod
    def of(cls, asked: Inquiry) -> "_Payment | None":
        """The total that admits all of the fits; `None` where nothing is to be paid for. Nothing is reserved yet.

        Raises:
            LedgerError: no ledger is named, or its total does not admit the fits.
        """
        schedule = asked.generator.schedule(asked.schema) if isinstance(asked.generator, PrivateGenerator) else None
        if asked.train is None or schedule is None or asked.black_box_fits is None:
            return None
        url = ledger_url(asked.ledger)
        if url is None:
            raise LedgerError(
                "an audit on real rows fits them again and again, and each fit is paid for like a release; name the "
                "dataset's ledger with --ledger, or audit on the stand-in"
            )
        fund = open_fund(url, asked.schema)
        n_fits = paired(asked.black_box_fits)
        fund.check({f"fit {i + 1}": schedule.curve for i in range(n_fits)})
        return cls(fund, schedule, n_fits)

    def reserved(self, asked: Inquiry, table: pd.DataFrame) -> tuple[Budgets, tuple[str, ...]]:
        """Budgets of reservations that were all made before the first fit, and what the ledger warns of.

        Each budget is used when its fit begins.

        They are never committed, since nothing is released, and never given back.
        """
        key = provenance.fingerprint_key(provenance.key_path())
        fingerprint = provenance.fingerprint(table, asked.schema, key)
        requests: list[Request] = [
            make_request(
                f"fit {i + 1} of {self.n_fits} of an audit of {asked.generator.name}, never released",
                self.schedule, asked.schema, fingerprint,
            )
            for i in range(self.n_fits)
        ]  # fmt: skip
        made = self.fund.ledger.reserve(requests)
        warnings = dict.fromkeys(sentence for one in made for sentence in one.warnings)

        def budget(index: int) -> Budget:
            token = requests[index].token
            self.fund.ledger.use(token)
            return Budget(self.schedule, ledger=self.fund.ledger.note(token))

        return budget, tuple(warnings)
