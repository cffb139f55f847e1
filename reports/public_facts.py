"""What may be said of a synthetic table to people who may not see the real one, and nothing else.

`PublicFacts` has no place for an evaluation. One function fills it, by a whitelist: whatever is not named there does
not get out. Everything in it is public (policy, declared schema, configuration), or computed from the synthetic table,
or was released under a budget.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from evaluate.audit_result import Audit, AuditError
from evaluate.dp_release.numbers import Released
from evaluate.gate.claim import Claim, Claims, Composition, made_here, on_stand_in
from evaluate.gate.policy import Policy
from evaluate.gate.protection import Protection, standing_protection
from evaluate.result import Estimate, Evaluation
from reports.attempts import evaluations_of
from reports.books import position_of
from reports.public_table import PublicColumn, columns_of
from synth.errors import BudgetError, JobError
from synth.schema import Schema

_STATED = (
    "epsilon", "delta", "relation", "unit", "n_units", "max_rows_per_unit", "accountant", "epsilon_rdp", "events",
    "versions", "caveats", "private",
)  # fmt: skip
"""What of a statement is published."""
_LEDGER = ("dataset", "unit", "epsilon", "spent_epsilon", "total_epsilon", "total_delta")
"""What of a ledger's note is published. Its entry is a hash over the real table's keyed fingerprint: that stays inside.
"""


@dataclass(frozen=True)
class Publication:
    """Numbers that were read off real rows, and what they cost.

    Attributes:
        numbers: as they were released.
        statement: of the numbers.
        together: of the table and the numbers; of a sweep, of all its tables and the numbers.
        n_fits: private fits that `together` holds.
    """

    numbers: tuple[Released, ...]
    statement: Mapping[str, Any]
    together: Mapping[str, Any]
    n_fits: int = 1


@dataclass(frozen=True)
class PublicFacts:
    """All that a public report knows.

    Attributes:
        title: the job's.
        table: label of the synthetic table.
        policy: its text is public.
        n_rows: of the synthetic table.
        columns: of the synthetic table, each with the distribution it has there.
        generator: name and parameters, as the job gives them.
        statement: of the table; `None`: **no formal guarantee**.
        unverified: whether the statement is that of a model, and nobody saw the table come from it.
        claims: of its fit alone, of all that counts with it, and of all that its run drew; `None` without a statement.
        protection: of the claim, computed from stated events alone; `None` where no guarantee holds that
            nobody disputes.
        ledger: where the ledger stood after all that the run drew; `None` outside a ledger.
        publication: released numbers; `None` where there are none.
        audit: of the mechanism, on a public stand-in; `None` where none ran.
        valid: the share of synthetic rows that keep the declared schema; `None` without a declared schema.
        schema: what is declared; `None` where nothing is.
        attempts: evaluations that were run under the declared name of the dataset, this one included; `None` where
            nobody counted. Never those of the very same rows: two such counts tell whether a row changed in between.
        version: of this program.
    """

    title: str
    table: str
    policy: Policy
    n_rows: int
    columns: tuple[PublicColumn, ...]
    generator: Mapping[str, Any]
    statement: Mapping[str, Any] | None = None
    unverified: bool = False
    claims: Claims | None = None
    protection: Protection | None = None
    ledger: Mapping[str, Any] | None = None
    publication: Publication | None = None
    audit: Mapping[str, Any] | None = None
    valid: Estimate | None = None
    schema: Schema | None = None
    attempts: int | None = None
    version: str = ""

    @property
    def void(self) -> bool:
        """Whether noise of what is published was not drawn from a secure source."""
        stated = self.statement is not None and self.statement.get("private") is not True
        return stated or (self.claims is not None and not self.claims.counted.private)

    @property
    def disputed(self) -> bool:
        """Whether an audit on a public stand-in disproves a claim that is published, or that of a fit it counts."""
        return self.claims is not None and self.claims.counted.disputed > 0

    @property
    def disproved(self) -> bool:
        """Whether an audit on a public stand-in disproves what the fit of this very table claims."""
        return self.claims is not None and self.claims.alone.disputed > 0

    @property
    def guaranteed(self) -> bool:
        """Whether what is published comes with a guarantee: stated, of this very table, and not void."""
        return self.statement is not None and not self.unverified and not self.void

    @property
    def claim(self) -> tuple[float, float] | None:
        """Epsilon and delta of all that is published; `None` without a guarantee or a claim that can be read."""
        if self.claims is None or not self.guaranteed:
            return None
        return self.claims.counted.epsilon, self.claims.counted.delta

    @property
    def together(self) -> Claim | None:
        """The sum of the table and all that counts with it; `None` where that is the table alone."""
        return None if self.claims is None or self.claims.counted == self.claims.alone else self.claims.counted


def public_facts(
    evaluation: Evaluation,
    name: str,
    *,
    policy: Policy,
    schema: Schema,
    synthetic: pd.DataFrame,
    title: str,
    n_rows: int | None = None,
) -> PublicFacts:
    """The whitelist: what is public in an evaluation of one table, beside what is public anyway.

    Args:
        evaluation: *Sensitive*.
        name: of the candidate.
        policy: to be judged by.
        schema: used only where it is declared.
        synthetic: the table, as it is released, or a part of it that was drawn like the others.
        title: the headline.
        n_rows: of the whole table; none: as many as are given.

    Raises:
        JobError: the evaluation has no such candidate.
        BudgetError: the numbers that were published are damaged.
        EvaluationError: what the table claims with all that counts with it cannot be read.
    """
    from evaluate.validity.validity import valid_rows

    found = next((one for one in evaluation.candidates if one.name == name), None)
    if found is None:
        raise JobError(f"release={name!r} was not evaluated, so that there is nothing to report; evaluate it")
    declared = schema if schema.status == "declared" else None
    provenance, claims = evaluation.provenance, Composition.of(evaluation).claims(found)
    return PublicFacts(
        title=title,
        table=name,
        policy=policy,
        n_rows=len(synthetic) if n_rows is None else n_rows,
        columns=columns_of(synthetic, declared),
        generator=dict(found.generator),
        statement=_stated(found.statement),
        unverified=found.statement is not None and not made_here(evaluation),
        publication=_publication(provenance.get("public_report"), name),
        claims=claims,
        protection=standing_protection(evaluation, found, claims),
        ledger=_position(evaluation, found.statement),
        audit=_audit(found.audit),
        valid=None if declared is None else valid_rows(synthetic, declared),
        schema=declared,
        attempts=evaluations_of(provenance, by_name=True),
        version=str((provenance.get("versions") or {}).get("understudy", "")),
    )


def _stated(statement: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if statement is None:
        return None
    ledger = statement.get("ledger")
    kept = {key: ledger[key] for key in _LEDGER if key in ledger} if isinstance(ledger, Mapping) else None
    return {**{key: statement[key] for key in _STATED if key in statement}, "ledger": kept}


def _position(evaluation: Evaluation, statement: Mapping[str, Any] | None) -> dict[str, Any] | None:
    found = position_of((statement or {}).get("ledger"), evaluation.provenance.get("ledger"))
    return None if found is None else {key: found[key] for key in (*_LEDGER, "moment")}


def _publication(content: Any, name: str) -> Publication | None:
    """Raises:
    BudgetError: the content is damaged.
    """
    if not isinstance(content, Mapping) or content.get("table") != name:
        return None
    try:
        statement, together = _stated(content["statement"]), _stated(content["together"])
        if statement is None or together is None:
            raise ValueError("released numbers have statements")
        return Publication(
            numbers=tuple(Released.from_dict(one) for one in content["numbers"]),
            statement=statement,
            together=together,
            n_fits=int(content["n_fits"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BudgetError("the released numbers are damaged; run the job anew (what was drawn stays spent)") from None


def _audit(content: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """An audit that ran on a public stand-in, and no other; of one that cannot be read nothing but that it is there."""
    if content is None:
        return None
    try:
        return content if on_stand_in(Audit.from_dict(content)) else None
    except AuditError:
        return {}
