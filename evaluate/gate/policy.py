"""A written policy: what must hold before a synthetic table may go to an audience, and why.

What a rule may rest on is in `evaluate.metrics`; what a policy says of a table is in `evaluate.gate.verdict`.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from evaluate.metrics import CATALOG, GATEABLE, UNJUDGED
from evaluate.result import Direction
from synth.errors import JobError, nearest
from synth.progress import html_table, text_table
from synth.validation import Frozen, read_toml, sentence

SHIPPED = Path(__file__).parents[1] / "policies"  # The folder of the policies that ship
STATEMENT = "statement."  # Prefix of the claims of a privacy statement


class Rule(Frozen):
    """One limit on one measure, and the reason for it; at most a second one, from which on the table fails."""

    measure: str = Field(
        description="Name of a number that a rule may rest on.",
        json_schema_extra=lambda schema: schema.update(enum=[*sorted(GATEABLE)]),
    )
    limit: float = Field(strict=True, description="The unfavorable end of the 95% interval has to keep it.")
    why: str = Field(min_length=1, description="The reason for this limit, for the one who has to defend it.")
    fails_beyond: float | None = Field(
        default=None,
        strict=True,
        description="FAIL where the favorable end of the 95% interval lies beyond it; left out: beyond `limit`.",
    )
    needs: Literal["", "order", "texts"] = Field(
        default="",
        description="What a table has to have for the rule to apply: rows in an order, or free text. A rule that says "
        "so may name a number of an extra that is not installed; it is INCONCLUSIVE then.",
    )
    severity: Literal["fail", "warn"] = Field(default="fail", description="A warning never changes the verdict.")
    subject: tuple[str, ...] = Field(default=(), description="Columns that the rule is about; left out: all.")

    @field_validator("measure")
    @classmethod
    def _gateable(cls, measure: str) -> str:
        if measure in CATALOG and not CATALOG[measure].gateable:
            raise ValueError(f"{measure!r} only describes and may not be gated: {CATALOG[measure].describes}")
        return measure

    @model_validator(mode="after")
    def _usable(self) -> Self:
        if self.measure not in GATEABLE and not self.needs:
            meant = nearest(self.measure, GATEABLE)
            raise ValueError(f"{self.measure!r} is not a measure that a rule may name; {meant}")
        if self.needs and self.needs != self.need:
            raise ValueError(f"needs={self.needs!r} is not what {self.measure!r} needs; leave it out")
        if self.fails_beyond is not None and self.measure.startswith(STATEMENT):
            raise ValueError(
                f"a claim has no interval, so that its rule has one limit: measure={self.measure!r} has "
                f"fails_beyond={self.fails_beyond:g}; leave it out"
            )
        if self.measure == UNJUDGED and self.severity == "fail" and self.limit > 0:
            raise ValueError(
                f"limit={self.limit:g} would let columns through that nobody judged, whatever they hold; write 0, and "
                "let somebody answer for them by a waiver"
            )
        return self

    @property
    def direction(self) -> Direction:
        """The direction that is better."""
        return GATEABLE.get(self.measure, "lower")  # of what is not installed nothing is compared

    @property
    def need(self) -> str:
        """The fact of the real table without which the rule does not apply; empty: none."""
        metric = CATALOG.get(self.measure)
        return self.needs if metric is None else metric.needs

    @property
    def failing(self) -> float:
        """The number beyond which the favorable end of an interval fails."""
        return self.limit if self.fails_beyond is None else self.fails_beyond

    @property
    def second(self) -> str:
        """The second limit in words, as it follows the first one; empty where there is none.

        >>> Rule(measure="privacy.copies.excess", limit=0.05, fails_beyond=0.0, why="because").second
        ', FAIL above 0'
        """
        if self.failing == self.limit:
            return ""
        return f", FAIL {'above' if self.direction == 'lower' else 'below'} {self.failing:g}"

    def keeps(self, value: float) -> bool:
        """True where a number keeps `limit`."""
        return self._turned(value) <= self._turned(self.limit)

    def breaks(self, value: float) -> bool:
        """True where a number lies beyond `failing`."""
        return self._turned(value) > self._turned(self.failing)

    def _turned(self, value: float) -> float:
        return value if self.direction == "lower" else -value


class Policy(Frozen):
    """A policy: the rules a table must keep before it may go to an audience."""

    name: str = Field(min_length=1, description="What verdicts and waivers call it, in ASCII.")
    version: int = Field(strict=True, ge=1, description="Raised with every change; a waiver is for one version only.")
    audience: str = Field(min_length=1, description="Who may have a table that passes.")
    description: str = Field(default="", description="What it is for, and what it rests on.")
    valid_days: Annotated[int, Field(strict=True, ge=1, le=36_500)] | None = Field(
        default=None,
        description="Days for which evidence made under it may be relied upon, unless a sign-off says otherwise; left "
        "out: until it is withdrawn.",
    )
    rules: tuple[Rule, ...] = Field(default=(), description="Without a binding one on privacy, nothing passes.")

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        """The rules that it writes, and those of every policy."""
        written = {rule.measure for rule in self.rules if rule.severity == "fail" and not rule.subject}
        return (*(rule for rule in ALWAYS if rule.measure not in written), *self.rules)

    def __repr__(self) -> str:
        return f"<Policy {self.name!r} {self.version}, {len(self.rules)} rules, for {self.audience}>"

    def __str__(self) -> str:
        return f"{repr(self).strip('<>')}\n{text_table(self._rows())}"

    def _repr_html_(self) -> str:
        return html_table(repr(self).strip("<>"), ("rule", "limit", "columns"), self._rows())

    def _rows(self) -> Iterator[tuple[str, str, str]]:
        for rule in self.rules:
            limit = f"{'at most' if rule.direction == 'lower' else 'at least'} {rule.limit:g}{rule.second}"
            warns = "" if rule.severity == "fail" else " (warning)"
            yield rule.measure, f"{limit}{warns}", ", ".join(rule.subject)

    @field_validator("name", "audience")
    @classmethod
    def _said(cls, text: str, info: ValidationInfo) -> str:
        if text != text.strip() or not text.isprintable():
            raise ValueError("verdicts name it, so it is one line of text without spaces around it; write it so")
        if info.field_name == "name" and not text.isascii():  # other alphabets have letters that look alike
            raise ValueError("verdicts are known by it, so it holds ASCII characters alone; rename it")
        return text

    @model_validator(mode="after")
    def _told_apart(self, info: ValidationInfo) -> Self:
        if info.context != _AS_SHIPPED:
            check_name(self)
        twice = _first_twice((rule.severity, rule.measure, rule.subject) for rule in self.rules)
        if twice is not None:
            raise ValueError(f"two rules of severity={twice[0]!r} name measure={twice[1]!r}; keep one")
        return self


def _first_twice(keys: Iterable[tuple[Any, ...]]) -> tuple[Any, ...] | None:
    return next((key for key, n in Counter(keys).items() if n > 1), None)


def bind_on_privacy(rules: Iterable[Rule]) -> bool:
    """True where one of the rules that apply to a table binds on its privacy: without one, it does not pass."""
    return any(rule.severity == "fail" and rule.measure.startswith(("privacy.", STATEMENT)) for rule in rules)


ALWAYS = (
    Rule.model_construct(  # unchecked, since a check loads every metric, and metrics are of what the gate builds on
        measure=UNJUDGED,
        limit=0.0,
        fails_beyond=1.0,  # of a share: what nobody looked at is not known to be wrong
        why="A verdict speaks of the columns that were compared. What stands in any other goes out unseen, and may be "
        "the real rows.",
    ),
)
"""Rules of every policy, on what some tables have, beside those that it writes itself."""


def shipped() -> tuple[str, ...]:
    """Names of the policies that ship.

    >>> shipped()
    ('internal', 'partner', 'public')
    """
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.toml")))


_AS_SHIPPED = "shipped"


@cache
def _load_shipped(name: str) -> Policy:
    return Policy.model_validate(read_toml(SHIPPED / f"{name}.toml", "policy", JobError), context=_AS_SHIPPED)


def check_name(policy: Policy) -> None:
    """Refuse a policy that takes the name of one that ships and says something else: verdicts are known by the name."""
    alike = policy.name.casefold()
    if alike in shipped() and policy != _load_shipped(alike):
        raise JobError(
            f"name={policy.name!r} is that of the {alike!r} that ships, and this policy says something else, so that "
            "verdicts could not be told apart; rename it"
        )


def find_policy(name_or_path: Path | str, beside: Path = Path()) -> Path:
    """The file of a policy that ships, by its name, or the path of another one.

    >>> find_policy("internal").name
    'internal.toml'
    """
    if name_or_path in shipped():
        return SHIPPED / f"{name_or_path}.toml"
    path = beside / name_or_path
    if path.suffix != ".toml" and not path.exists():  # a missing TOML file is told by whoever reads it
        named = str(name_or_path)
        raise JobError(f"policy={named!r} is no file and does not ship; {nearest(named, shipped())}")
    return path


def load_policy(name_or_path: Path | str) -> Policy:
    """A policy that ships, by its name, or one of a TOML file.

    Args:
        name_or_path: such as "internal", or the path of a file.

    Raises:
        JobError: neither a name nor a file, or the file is not a policy; nothing was judged.

    >>> load_policy("internal").audience
    'people inside the organization, in a protected sandbox'
    """
    if not isinstance(name_or_path, str | Path):
        kind = type(name_or_path).__name__
        raise JobError(f"the policy is of type {kind}; pass a name that ships, such as 'internal', or a file's path")
    return build_policy(read_toml(find_policy(name_or_path), "policy", JobError))


def build_policy(content: Mapping[str, Any]) -> Policy:
    """A policy from plain data, as a policy file holds it."""
    try:
        return Policy.model_validate(dict(content))
    except ValidationError as error:
        raise JobError(f"the policy cannot be used: {sentence(error, Policy)}") from None


DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
LONG_DAYS = 2 * 366  # A waiver for longer is warned about, where the policy says nothing of how long evidence counts


class Waiver(Frozen):
    """One rule of one policy that need not hold for one table until a date."""

    policy: str = Field(min_length=1, description="Name of the policy.")
    version: int = Field(strict=True, ge=1, description="Version of the policy; another version needs another waiver.")
    candidate: str = Field(min_length=1, description="The synthetic table, as the evaluation calls it.")
    measure: str = Field(min_length=1, description="What the rule limits.")
    subject: tuple[str, ...] = Field(default=(), description="Columns that the rule is about; left out: all.")
    owner: str = Field(min_length=1, description="Who answers for it.")
    reason: str = Field(min_length=1, description="Why it is acceptable.")
    until: date = Field(description="The last day on which it counts.", json_schema_extra={"pattern": f"^{DAY}$"})

    @field_validator("owner", "reason")
    @classmethod
    def _said(cls, text: str) -> str:
        if not text.strip() or not text.isprintable():
            raise ValueError("who answers and why is one line of text; write it out")
        return text

    @field_validator("until", mode="before")
    @classmethod
    def _day(cls, until: object) -> object:
        """A day of TOML, or its text; a number of seconds is somebody's mistake, and so is a time of day."""
        is_day = isinstance(until, date) and not isinstance(until, datetime)
        if not is_day and not (isinstance(until, str) and re.fullmatch(DAY, until)):
            raise ValueError("the last day is a date; write it as 2030-12-31")
        return until

    @property
    def key(self) -> tuple[object, ...]:
        return (self.policy, self.version, self.candidate, self.measure, self.subject)

    def in_force(self, today: date) -> bool:
        return today <= self.until


class Waivers(Frozen):
    """A file of waivers."""

    waivers: tuple[Waiver, ...] = ()

    @model_validator(mode="after")
    def _once(self) -> Self:
        twice = _first_twice(waiver.key for waiver in self.waivers)
        if twice is not None:
            raise ValueError(f"two waivers are for measure={twice[3]!r} of candidate={twice[2]!r}; keep one")
        return self


def lasting(waivers: Iterable[Waiver], policy: str, valid_days: int | None, today: date) -> tuple[str, ...]:
    """A warning about each waiver that counts for longer than anybody looks ahead: whoever wrote it may have erred."""
    n_days, whose = (LONG_DAYS, "two years") if valid_days is None else (valid_days, f"the valid_days={valid_days}")
    beyond = "that evidence under this policy counts" if valid_days is not None else "in which reasons may change"
    return tuple(
        f"the waiver of {waiver.measure} for {waiver.candidate} counts until {waiver.until}, longer than {whose} "
        f"{beyond}; check the year, or name an earlier day"
        for waiver in waivers
        if waiver.policy == policy and (waiver.until - today).days > n_days
    )


def build_waivers(content: Mapping[str, Any]) -> tuple[Waiver, ...]:
    """Waivers from plain data, as their file holds it."""
    try:
        return Waivers.model_validate(dict(content)).waivers
    except ValidationError as error:
        raise JobError(f"the waivers cannot be used: {sentence(error, Waivers)}") from None


def check_waivers(waivers: Iterable[Waiver], policies: Iterable[Policy], names: Collection[str]) -> None:
    """Refuse a waiver that would never count, since whoever wrote it means one that does."""
    known = {policy.name: policy for policy in policies}
    for waiver in waivers:
        fault = _fault_of(waiver, known, names) if known else "a rule, and no policy is judged by; name one"
        if fault:
            raise JobError(f"a waiver is for {fault}")


def _fault_of(waiver: Waiver, known: Mapping[str, Policy], names: Collection[str]) -> str:
    if waiver.policy not in known:
        return f"policy={waiver.policy!r}, by which nothing is judged here; {nearest(waiver.policy, known)}"
    policy = known[waiver.policy]
    if waiver.version != policy.version:
        what = f"version={waiver.version} of policy={policy.name!r}, which is at version {policy.version}"
        return f"{what}; read what changed, and renew the waiver or remove it"
    if waiver.candidate not in names:
        return f"candidate={waiver.candidate!r}, which is not here; {nearest(waiver.candidate, names)}"
    same = [rule for rule in policy.all_rules if rule.measure == waiver.measure]
    alike = [rule for rule in same if rule.subject == waiver.subject]
    if any(rule.severity == "fail" for rule in alike):
        return ""
    which = f"measure={waiver.measure!r}" + (f" with subject={list(waiver.subject)}" if waiver.subject else "")
    if alike:
        return f"{which}, whose rule only warns in policy={policy.name!r}; remove the waiver"
    binding = list(dict.fromkeys(rule.measure for rule in policy.all_rules if rule.severity == "fail"))
    remedy = "name the columns of a rule as the policy does" if same else nearest(waiver.measure, binding)
    return f"{which}, on which policy={policy.name!r} has no rule; {remedy}"
