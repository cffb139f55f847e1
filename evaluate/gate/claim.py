"""A claim as it is quoted: what it is of, why, and whether an audit disproves a part of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from evaluate.audit_result import EXCEEDS, Audit
from evaluate.gate.accounting import check_accounting, damaged
from evaluate.provenance import ComposedClaim
from evaluate.result import Candidate, Evaluation
from evaluate.text import count, loss
from synth.dp.statement import PrivacyStatement

__all__ = ["Claim", "Composition"]

Of = Literal["fit", "published", "tables", "sweep", "run", "sum"]


@dataclass(frozen=True)
class Claim:
    """The privacy claim of several releases of one real table together."""

    of: Of
    epsilon: float
    delta: float
    n_releases: int = 1
    private: bool = True
    disputed: int = 0

    @property
    def what(self) -> str:
        """The releases in words, such as a table's row names them."""
        return {
            "fit": "this fit alone",
            "published": "the table and the numbers published about it"
            + (f", with {_all(self.n_releases - 1)} private fits of its sweep" if self.n_releases > 2 else ""),
            "tables": "both related tables, parents and their rows",
            "sweep": f"all private fits of the sweep that the table is from, {count(self.n_releases)} in number",
            "run": f"{_all(self.n_releases)} private releases that its run drew",
            "sum": f"{_all(self.n_releases)} private releases of this evaluation, added up",
        }[self.of]

    @property
    def why(self) -> str:
        """The reason why the table counts with them; empty for the fit alone."""
        unnamed = "No job named it for release before anything was drawn, and"
        return {
            "fit": "",
            "published": "Whoever has the table and the numbers has both.",
            "tables": "Whoever has the parents and their rows has both.",
            "sweep": "Whoever picks one of several fits has looked at all.",
            "run": f"{unnamed} whoever picks one of several has looked at all.",
            "sum": f"{unnamed} whoever picks one of several has looked at all.",
        }[self.of]

    @property
    def doubt(self) -> str:
        """The doubt where it rests on a claim that an audit disproves; else empty."""
        if not self.disputed:
            return ""
        if self.n_releases == 1:
            return "DISPUTED: an audit disproves it."
        what = (
            "one of these releases claims" if self.disputed == 1 else f"{count(self.disputed)} of these releases claim"
        )
        return f"DISPUTED: an audit disproves what {what} alone, so that this number must not be relied on either."


@dataclass(frozen=True)
class Claims:
    alone: Claim
    counted: Claim
    drawn: Claim | None

    @property
    def all(self) -> tuple[Claim, ...]:
        """From the fit alone to all that was drawn, each once."""
        rest = () if self.drawn is None else (self.drawn,)
        return (self.alone, *(() if self.counted == self.alone else (self.counted,)), *rest)

    @property
    def reading(self) -> str:
        """The reason why the table is judged by another claim than its fit's own; else empty."""
        if self.counted == self.alone:
            return ""
        return (
            f"Epsilon {loss(self.counted.epsilon)} at delta {loss(self.counted.delta)} is that of {self.counted.what}; "
            f"this fit alone claims {loss(self.alone.epsilon)} at delta {loss(self.alone.delta)}. {self.counted.why} "
            f"{self.counted.doubt}"
        ).rstrip()

    @property
    def price_of_choice(self) -> str:
        """The claim of a choice among all that was drawn; empty where nothing else was drawn."""
        if self.drawn is None:
            return ""
        beside = "Others were measured beside it" if self.drawn.of == "sum" else "The job drew more, which stays inside"
        return (
            f"{beside}: {self.drawn.what} come to epsilon {loss(self.drawn.epsilon)} at delta "
            f"{loss(self.drawn.delta)}. That is the claim where the best of them was chosen. {self.drawn.doubt}"
        ).rstrip()


def _all(n: int) -> str:
    return "both" if n == 2 else f"all {count(n)}"


STAND_IN = "public stand-in"  # In the description of data that an audit ran on, which says that anybody may know of it


@dataclass(frozen=True)
class Composition:
    """The composition of releases that were drawn together, as an evaluation states it; nothing read off real rows."""

    release: str | None
    sweep: Claim | None
    table: str | None
    published: Claim | None
    run: Claim | None
    tables: Mapping[str, Claim]
    is_sweep: bool

    @classmethod
    def of(cls, evaluation: Evaluation) -> "Composition":
        check_accounting(evaluation, made_here=made_here(evaluation))
        known = evaluation.provenance
        private = all(one.statement.private for one in evaluation.candidates if one.statement is not None)
        composed = None if known.sweep is None else known.sweep.composed
        disputed = tuple(one.name for one in evaluation.candidates if disproved(one))
        table, published = _published(evaluation)
        if published is not None:
            of_table = len(disputed) if known.sweep is not None else int(table in disputed)
            published = replace(published, disputed=of_table)
        return cls(
            release=known.release,
            sweep=None if composed is None else _disputed(_claim("sweep", composed, private=private), disputed),
            table=table,
            published=published,
            run=_disputed(_run(evaluation, private=private, swept=composed is not None), disputed),
            tables={name: _claim("tables", both, private=private) for name, both in known.both_tables.items()},
            is_sweep=known.sweep is not None,
        )

    def counted(self, candidate: Candidate) -> Claim | None:
        """The claim of all that a table counts with; `None` where it makes no claim or stands alone."""
        if candidate.statement is None:
            return None
        if self.is_sweep and self.sweep is None:
            raise damaged("its provenance does not say what the private fits of its sweep claim together")
        published = self.published if candidate.name == self.table else None
        run = None if candidate.name == self.release else self.run
        found = [one for one in (self.tables.get(candidate.name), self.sweep, published, run) if one is not None]
        if not found:
            return None
        most = max(found, key=lambda one: one.epsilon)
        return replace(
            most, delta=max(one.delta for one in found), private=all(one.private for one in found),
            disputed=max(one.disputed for one in found),
        )  # fmt: skip

    def claims(self, candidate: Candidate) -> Claims | None:
        """All that a table claims; `None` without a statement."""
        stated, counted = candidate.statement, self.counted(candidate)
        if stated is None:
            return None
        alone = Claim("fit", stated.epsilon, stated.delta, 1, stated.private, int(disproved(candidate)))
        both = alone if counted is None else _no_less(counted, alone)
        both = alone if replace(both, of="fit") == alone else both  # a sweep of one fit
        more = self.run is not None and self.run.n_releases > both.n_releases
        return Claims(alone, both, _no_less(self.run, both) if more and self.run is not None else None)


def _disputed(claim: Claim | None, names: Sequence[str]) -> Claim | None:
    """The claim of all private fits, of which audits disprove some."""
    return None if claim is None else replace(claim, disputed=len(names))


def _published(evaluation: Evaluation) -> tuple[str | None, Claim | None]:
    """The table that numbers are published about, and what both claim together."""
    found = evaluation.provenance.released_numbers
    if found is None:
        return None, None
    if found.table not in [one.name for one in evaluation.candidates]:
        raise damaged("its provenance holds published numbers of no table of it")
    both = found.together
    return found.table, Claim("published", both.epsilon, both.delta, found.n_fits + 1, both.private)


def _run(evaluation: Evaluation, *, private: bool, swept: bool) -> Claim | None:
    """All that the run drew: as it composed that, else added up; `None` of a sweep, whose claim has all fits."""
    known = evaluation.provenance
    numbers = known.released_numbers
    composed = known.composed or (None if numbers is None else numbers.every)
    if composed is not None:
        return _claim("run", composed, private=private)
    return None if swept else _added_up(evaluation, () if numbers is None else (numbers.statement,))


def _added_up(evaluation: Evaluation, numbers: Sequence[PrivacyStatement]) -> Claim | None:
    """The sum of several private releases that no run composed; `None` where there are not several.

    Source: Dwork and Roth (2014), The Algorithmic Foundations of Differential Privacy, Theorem 3.16.
    """
    stated = [one.statement for one in evaluation.candidates if one.statement is not None]
    stated += numbers
    if len(stated) < 2:
        return None
    epsilon, delta = (sum(getattr(one, name) for one in stated) for name in ("epsilon", "delta"))
    return Claim("sum", epsilon, min(1.0, delta), len(stated), all(one.private for one in stated))


def _claim(of: Of, composed: ComposedClaim, *, private: bool) -> Claim:
    return Claim(of, composed.epsilon, composed.delta, composed.n_fits, private)


def _no_less(claim: Claim, part: Claim) -> Claim:
    """A claim that is no smaller than that of a part of it, as no composition is."""
    return replace(claim, epsilon=max(claim.epsilon, part.epsilon), delta=max(claim.delta, part.delta),
                   private=claim.private and part.private, disputed=max(claim.disputed, part.disputed))  # fmt: skip


def disproved(candidate: Candidate) -> bool:
    """True where an audit on a public stand-in disproves a candidate's claim."""
    found = candidate.audit
    return found is not None and candidate.statement is not None and found.verdict == EXCEEDS and on_stand_in(found)


def on_stand_in(found: Audit) -> bool:
    """True where all of an audit ran on a public stand-in: any other audit is not for the public."""
    return all(STAND_IN in ran_on for ran_on in (found.ran_on, *(part.ran_on for part in found.parts)))


def made_here(evaluation: Evaluation) -> bool:
    """True where the run that measured the tables made them: it split the real table itself."""
    return bool(evaluation.provenance.split)
