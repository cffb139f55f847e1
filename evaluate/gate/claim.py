"""A claim as it is quoted: what it is of, why, and whether an audit disproves a part of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from evaluate.audit_result import EXCEEDS, Audit, AuditError
from evaluate.plain_data import mapping, whole
from evaluate.result import Candidate, Evaluation, EvaluationError
from evaluate.text import count, loss
from synth.dp.statement import is_claim

__all__ = ["Claim", "Composition", "damaged", "stated_as_counted"]

Of = Literal["fit", "published", "sweep", "run", "sum"]


@dataclass(frozen=True)
class Claim:
    """The privacy claim of several releases of one real table together.

    Attributes:
        of: "fit": this one alone; "published": the table with the numbers about it, and with its sweep; "sweep": all
            private fits of it; "run": all that the run drew; "sum": likewise, added up where no run composed it.
        epsilon: of all of them.
        delta: of all of them.
        n_releases: how many they are; published numbers are one.
        private: whether all noise was drawn from a secure source.
        disputed: of how many of them an audit disproves what they claim alone.
    """

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
    """The privacy claims of one table.

    Attributes:
        alone: its fit's own claim.
        counted: what the table is judged and quoted by; `alone` where nothing counts with it.
        drawn: all that its run drew, where that is more than what counts; `None` otherwise.
    """

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
    """A number of things as all of them."""
    return "both" if n == 2 else f"all {count(n)}"


FIELDS = ("epsilon", "delta")
STAND_IN = "public stand-in"
"""In the description of data that an audit ran on, which says that anybody may know of it."""


@dataclass(frozen=True)
class Composition:
    """The composition of releases that were drawn together, as an evaluation states it; nothing read off real rows.

    Attributes:
        release: the table that the job named for release; `None` where it named none.
        sweep: all private fits of a sweep; `None` outside one, and where it has none.
        table: the table that numbers are published about; `None` where there are no such numbers.
        published: that table with these numbers.
        run: all that the run drew; `None` where that is one release at most.
        is_sweep: whether the evaluation is of a sweep.
    """

    release: str | None
    sweep: Claim | None
    table: str | None
    published: Claim | None
    run: Claim | None
    is_sweep: bool

    @classmethod
    def of(cls, evaluation: Evaluation) -> "Composition":
        """The composition that an evaluation states.

        Raises:
            EvaluationError: what it says of a sweep, of published numbers or of its run is nothing that a run writes.
        """
        known, release = evaluation.provenance, evaluation.provenance.get("release")
        private = all(one.statement.get("private") is True for one in evaluation.candidates if one.statement)
        swept = known.get("sweep")
        if swept is not None and not isinstance(swept, Mapping):
            raise damaged("does not say what its sweep is")
        content = None if swept is None else swept.get("composed")
        disputed = tuple(one.name for one in evaluation.candidates if disproved(one))
        table, published = _published(evaluation)
        if published is not None:
            of_table = len(disputed) if swept is not None else int(table in disputed)
            published = replace(published, disputed=of_table)
        return cls(
            release=release if isinstance(release, str) else None,
            sweep=None if content is None else _disputed(_claim("sweep", content, content, private=private), disputed),
            table=table,
            published=published,
            run=_disputed(_run(evaluation, private=private, swept=content is not None), disputed),
            is_sweep=swept is not None,
        )

    def counted(self, candidate: Candidate) -> Claim | None:
        """What a table counts with, as a whole; `None` where it makes no claim or stands alone.

        Raises:
            EvaluationError: it is of a sweep that does not say what its private fits claim together.
        """
        if candidate.statement is None:
            return None
        if self.is_sweep and self.sweep is None:
            raise damaged("does not say what the private fits of its sweep claim together")
        published = self.published if candidate.name == self.table else None
        run = None if candidate.name == self.release else self.run
        found = [one for one in (self.sweep, published, run) if one is not None]
        if not found:
            return None
        most = max(found, key=lambda one: one.epsilon)
        return replace(
            most, delta=max(one.delta for one in found), private=all(one.private for one in found),
            disputed=max(one.disputed for one in found),
        )  # fmt: skip

    def claims(self, candidate: Candidate) -> Claims | None:
        """All that a table claims; `None` where its statement names no claim that can be read.

        Raises:
            EvaluationError: it is of a sweep that does not say what its private fits claim together.
        """
        stated, counted = candidate.statement or {}, self.counted(candidate)
        if not all(is_claim(name, stated.get(name)) for name in FIELDS):
            return None
        private = stated.get("private") is True
        alone = Claim("fit", float(stated["epsilon"]), float(stated["delta"]), 1, private, int(disproved(candidate)))
        both = alone if counted is None else _no_less(counted, alone)
        both = alone if replace(both, of="fit") == alone else both  # a sweep of one fit
        more = self.run is not None and self.run.n_releases > both.n_releases
        return Claims(alone, both, _no_less(self.run, both) if more and self.run is not None else None)


def _disputed(claim: Claim | None, names: Sequence[str]) -> Claim | None:
    """The claim of all private fits, of which audits disprove some."""
    return None if claim is None else replace(claim, disputed=len(names))


def damaged(what: str) -> EvaluationError:
    """The error of an evaluation that says what no run writes."""
    return EvaluationError(f"the evaluation is damaged: its provenance {what}; evaluate again")


def _published(evaluation: Evaluation) -> tuple[str | None, Claim | None]:
    """The table that numbers are published about, and what both claim together."""
    found = evaluation.provenance.get("public_report")
    if found is None:
        return None, None
    together = found.get("together") if isinstance(found, Mapping) else None
    if not isinstance(together, Mapping) or not isinstance(together.get("private"), bool):
        raise damaged("holds published numbers without what they claim")
    table = found.get("table")
    if table not in [one.name for one in evaluation.candidates]:
        raise damaged("holds published numbers of no table of it")
    claim = _claim("published", together, found, private=together["private"])
    return str(table), replace(claim, n_releases=claim.n_releases + 1)


def _run(evaluation: Evaluation, *, private: bool, swept: bool) -> Claim | None:
    """All that the run drew: as it composed that, else added up; `None` of a sweep, whose claim has all fits."""
    numbers = mapping(evaluation.provenance.get("public_report"))
    content = evaluation.provenance.get("composed")
    content = numbers.get("every") if content is None else content
    if content is not None:
        return _claim("run", content, content, private=private)
    return None if swept else _added_up(evaluation, numbers.get("statement"))


def _added_up(evaluation: Evaluation, numbers: object) -> Claim | None:
    """What several private releases come to that no run composed; `None` where there are not several.

    Source: Dwork and Roth (2014), The Algorithmic Foundations of Differential Privacy, Theorem 3.16.
    """
    stated = [one.statement for one in evaluation.candidates if one.statement]
    stated += [numbers] if isinstance(numbers, Mapping) else []
    if len(stated) < 2:
        return None
    epsilon, delta = (sum(float(one[name]) for one in stated if is_claim(name, one.get(name))) for name in FIELDS)
    # A statement that cannot be read bounds nothing.
    private = all(one.get("private") is True and all(is_claim(n, one.get(n)) for n in FIELDS) for one in stated)
    return Claim("sum", epsilon, min(1.0, delta), len(stated), private)


def _claim(of: Of, claimed: object, counted: object, *, private: bool) -> Claim:
    """A claim of several releases, as a run writes it."""
    if isinstance(claimed, Mapping) and isinstance(counted, Mapping):
        n = whole(counted.get("n_fits"))
        if n and all(is_claim(name, claimed.get(name)) for name in FIELDS):
            return Claim(of, float(claimed["epsilon"]), float(claimed["delta"]), n, private)
    raise damaged("claims for several fits together what none can claim")


def _no_less(claim: Claim, part: Claim) -> Claim:
    """A claim that is no smaller than that of a part of it, as no composition is."""
    return replace(claim, epsilon=max(claim.epsilon, part.epsilon), delta=max(claim.delta, part.delta),
                   private=claim.private and part.private, disputed=max(claim.disputed, part.disputed))  # fmt: skip


def stated_as_counted(stated: Mapping[str, Any], counted: Claim) -> dict[str, Any]:
    """A statement whose claim is that of all that counts with it; what it does not claim stays unclaimed.

    It says that it is void, or disputed, where anything that counts is.
    """
    larger = {name: max(stated[name], getattr(counted, name)) for name in FIELDS if is_claim(name, stated.get(name))}
    doubts = {**({} if counted.private else {"private": False}), **({"disputed": True} if counted.disputed else {})}
    return {**stated, **larger, **doubts}


def disproved(candidate: Candidate) -> bool:
    """True where an audit on a public stand-in disproves a candidate's claim; an unreadable one does not."""
    if candidate.audit is None or not candidate.statement:
        return False
    try:
        found = Audit.from_dict(candidate.audit)
    except AuditError:
        return False
    return found.verdict == EXCEEDS and on_stand_in(found)


def on_stand_in(found: Audit) -> bool:
    """True where all of an audit ran on a public stand-in: any other audit is not for the public."""
    return all(STAND_IN in ran_on for ran_on in (found.ran_on, *(part.ran_on for part in found.parts)))


def made_here(evaluation: Evaluation) -> bool:
    """Whether the run that measured the tables made them: it split the real table; who offers one brings two sides."""
    return bool(evaluation.provenance.get("split"))
