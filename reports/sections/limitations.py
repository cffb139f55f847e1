"""The ground that an evaluation rests on: its provenance, its limitations, and the criteria of guidelines.

Limitations are what did not run, how small a leak the attacks could have seen, and why copies can be honest. Of each
criterion a table has a word and a sentence, made of attacks, the audit, the privacy claim, utility or the schema.

Source: Article 29 Working Party, Opinion 05/2014 on anonymisation techniques (WP 216), section 3; Near et al.
2025, Guidelines for evaluating differential privacy guarantees, NIST SP 800-226, doi 10.6028/NIST.SP.800-226;
ISO/IEC 27559:2022, Privacy enhancing data de-identification framework, clauses 6 to 9.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from evaluate.audit_result import MEASURE as AUDITED
from evaluate.gate.claim import claims_of
from evaluate.gate.decision import sampled
from evaluate.metrics import CATALOG
from evaluate.provenance import Provenance
from evaluate.result import Candidate, Estimate, Evaluation, Failure
from evaluate.text import alike, count, finite, listed, loss, number, percent, plain, sentence
from reports.guarantee import audit_note
from reports.sections.attacks import attack_note
from reports.sections.quality import groups_of
from synth.schema import Schema

UNVERIFIED = (
    "The statement is that of a model. That this table came from the model is what whoever offered it says; it was not "
    "verified."
)
_NAMES = {
    "files_sha256": "SHA-256 of", "fingerprints": "keyed fingerprint of",
    "real": "real table:", "schema": "schema:", "job_sha256": "SHA-256 of the job",
    "schema_sha256": "SHA-256 of the schema", "policy_sha256": "SHA-256 of the policy",
    "waivers_sha256": "SHA-256 of the waivers", "n_units": "declared units",
    "duplicates_across": "held-out rows equal to a training row", "duplicate_share_train": "share of training rows "
    "with a twin",
}  # fmt: skip
"""Keys of an evaluation that say little to a reader; a file's name is left as it is."""
_GROUPS = (
    ("Files that were written", "sha256sum gives the same for a file that nobody changed.", ("files_sha256",)),
    (
        "What was asked for", "Hashes of the files that lie beside this report.",
        ("job_sha256", "schema_sha256", "policy_sha256", "waivers_sha256"),
    ),
    (
        "Real inputs", "Keyed (HMAC) with a key that stays where this ran: nobody else can confirm a guess by them.",
        ("fingerprints",),
    ),
    ("The run", "", ()),
)  # fmt: skip
"""Groups of keys; what has no group and is told in no other section is of the run."""
_ELSEWHERE = {"versions", "warnings", "attempts", "released_numbers", *(key for *_, keys in _GROUPS for key in keys)}


@dataclass(frozen=True)
class FactGroup:
    """Facts of one kind, name and value, under a heading, with a sentence on what they are good for."""

    title: str
    note: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class SchemaRow:
    column: str
    kind: str
    holds: str
    missing: bool
    roles: tuple[str, ...]


def fact_groups(evaluation: Evaluation) -> tuple[FactGroup, ...]:
    """Facts that identify this evaluation: outputs, job, inputs, run and real table."""
    known = asdict(evaluation.provenance)
    of_run = tuple(key for key in known if key not in _ELSEWHERE)
    groups = [
        FactGroup(title, note, tuple(_flat({key: known[key] for key in keys or of_run})))
        for title, note, keys in _GROUPS
    ]
    schema = {name: getattr(evaluation.schema, name) for name in ("status", "n_units", "entity")}
    real = {name: fact for name, fact in asdict(evaluation.real).items() if name != "shift"}  # a warning says it
    groups.append(FactGroup("The real table and its schema", "", (*_flat(real, "real"), *_flat(schema, "schema"))))
    return tuple(group for group in groups if group.facts)


def schema_rows(schema: Schema) -> tuple[SchemaRow, ...]:
    roles = (
        ("target", (schema.target,)), ("entity", (schema.entity,)), ("sensitive", schema.sensitive),
        ("quasi-identifier", schema.quasi_identifiers),
    )  # fmt: skip
    return tuple(
        SchemaRow(
            name, column.kind, plain(column.domain_words), column.missing,
            tuple(role for role, names in roles if name in names),
        )
        for name in schema.kept
        for column in [schema.columns[name]]
    )  # fmt: skip


def _flat(content: Mapping[str, Any], *above: str) -> Iterator[tuple[str, str]]:
    for name, value in content.items():
        path = (*above, str(name))
        words = " ".join(_NAMES.get(key, plain(key) if "/" in key else plain(key).replace("_", " ")) for key in path)
        if isinstance(value, Mapping):
            yield from _flat(value, *path)
        elif isinstance(value, list | tuple):
            yield words, ", ".join(plain(v) for v in value) or "none"
        elif type(value) is int and path[0] in ("real", "schema"):
            yield words, count(value)
        elif value is not None:
            yield words, number(value) if isinstance(value, float) else plain(value)


def evaluations_of(provenance: Provenance, *, by_name: bool) -> int | None:
    """Evaluations that were run, this one included; `None` where nobody counted."""
    attempts = provenance.attempts
    counted = attempts if attempts is None or not by_name else attempts.by_name
    return None if counted is None else counted.evaluations


NOT_RUN = (
    "attackers who see several releases of the same table", "attackers who question or hold the generator itself",
    "attackers who know a person's relatives or other rows",
)  # fmt: skip
"""Attacks that this version does not have. Nothing in a report speaks against them."""
NOT_AUDITED = (
    "Not audited: the claimed epsilon follows from the books, and no attack has measured a lower bound for it."
)
NO_SHADOWS = (
    "No attack by shadow models gave a result: whoever fits the same generator again and again may see more than the "
    "attacks here do."
)
AUDIT_FAILED = (
    "The audit was tried and gave no result: the claimed epsilon follows from the books alone. Why it gave none stands "
    "among the measures without a result."
)
LEFT_OUT = (
    "The audit tests Gaussian noise on counts and in steps of DP-SGD, on a public stand-in. It names nothing else that "
    "it looked at: not choices, the histogram of rows per entity, measured domains, what a step does after its noise, "
    "or anything that this table alone would bring out."
)
"""Of an audit that does not say what it left out."""
NOT_COUNTED = (
    "How many evaluations were run on this real table is not counted here. Each one that somebody reads is a question "
    "to the table, and many questions about few people can be put together to their rows."
)


def limits_of(candidate: Candidate, notes: Sequence[str] = ()) -> tuple[str, ...]:
    """Sentences on what the evaluation of one table could not see."""
    audit = [_of_audit(candidate)] if candidate.statement is not None else []
    shadows = [] if isinstance(candidate.find("privacy.shadow.auc"), Estimate) else [NO_SHADOWS]
    return (*on_samples(candidate), *notes, *_power(candidate), *shadows, *audit)


def warnings_of(evaluation: Evaluation) -> tuple[str, ...]:
    """Warnings of the evaluation and its run, as whole sentences; first, that train and holdout differ."""
    return tuple(map(_warned, (*evaluation.real.warnings, *evaluation.provenance.warnings)))


def _warned(warning: object) -> str:
    """A warning as a whole sentence; a setting that it begins with stays as it is written."""
    text = sentence(warning).rstrip(".")
    first = text.partition(" ")[0]
    return f"{text[:1].upper() + text[1:] if first.isalpha() else text}."


_LISTED = 'kind = "categorical" and their categories (`understudy schema infer --kind COLUMN=categorical` lists them)'
_WRITER = 'kind = "text" and learn = true: a language model writes new ones (docs/how-to/free-text.md).'
_ANEW = f"To keep what is none of this, write {_LISTED}."
_UNLEARNED: Mapping[str, tuple[str, str]] = {
    "text": (
        "Left out, as texts that are neither categories nor numbers nor times as they are written",
        f"To keep them, write {_LISTED}; the very texts then stand in the synthetic table. Or write {_WRITER}",
    ),
    "left out": ("Left out by the schema", "To keep them, take drop = true out."),
    "random": (
        "Free text, in whose place random words stand",
        f"To have texts that go with their rows, write {_WRITER}",
    ),
    "personal": ("Personal data, written anew: no real value is kept, nor what it goes with", _ANEW),
    "identifier": ("Identifiers, written anew: no real value is kept, nor what it goes with", _ANEW),
}
"""What becomes of columns that are not learned, and what to write in the schema instead."""


def left_out(schema: Schema) -> tuple[str, ...]:
    """A sentence on each kind of columns that are left out or replaced, with what to write to keep them."""
    names: dict[str, list[str]] = {}
    for name in schema.unlearned:
        column = schema.columns[name]
        if column.drop:
            fate = "text" if column.is_text else "left out"
        elif column.is_personal:
            fate = "random" if column.personal == "text" else "personal"
        else:
            fate = "identifier"
        names.setdefault(fate, []).append(name)
    known = ((*_UNLEARNED[fate], names[fate]) for fate in _UNLEARNED if fate in names)
    return tuple(f"{what}: {listed(columns)}. {remedy}" for what, remedy, columns in known)


def on_samples(candidate: Candidate) -> tuple[str, ...]:
    """A sentence on the samples that numbers rest on; none where they rest on all rows."""
    # The longest names all tables that were not looked at as a whole; some measures need samples of one alone.
    all_of_them = (sampled(estimate).partition(";")[0].rstrip(".") for estimate in candidate.estimates)
    longest = max(all_of_them, key=len, default="")
    return (f"{longest}, by all that needs rows in memory (attacks, utility, detection, fairness).",) if longest else ()


def attempts_on(evaluation: Evaluation) -> str:
    """The number of evaluations of this real table, and its meaning, as sentences.

    Source: Ganev and De Cristofaro 2023, arXiv:2312.05114 (ReconSyn).
    """
    counted = evaluation.provenance.attempts
    if counted is None:
        return NOT_COUNTED
    n = counted.evaluations
    times = "the first evaluation" if n == 1 else f"evaluation number {count(n)}"
    tables = "one synthetic table" if counted.tables == 1 else f"{count(counted.tables)} synthetic tables in all"
    return (
        f"This is {times} of this real table that was counted on this machine, with {tables} since "
        f"{plain(counted.since, 20)}. Each one that somebody reads is a question to the table; the more of them are "
        "passed on, the more they say together about single rows."
    )


def audit_failed(candidate: Candidate) -> bool:
    return candidate.audit is None and isinstance(candidate.find(AUDITED), Failure)


def _of_audit(candidate: Candidate) -> str:
    if audit_failed(candidate):
        return AUDIT_FAILED
    if candidate.audit is None:
        return NOT_AUDITED
    note = audit_note(candidate)
    return f"The audit tests the program on public stand-ins. {note.scope}" if note and note.scope else LEFT_OUT


def _power(candidate: Candidate) -> list[str]:
    figure, auc = candidate.figures.get("membership"), candidate.find("privacy.membership.auc")
    if not figure or not isinstance(auc, Estimate):
        return ["No membership attack gave a result, so nothing here speaks against one."]
    members, controls = int(finite(figure.get("n_members"))), int(finite(figure.get("n_controls")))
    sentences = []
    if auc.detectable is not None:
        sentences.append(
            f"With {count(members)} members and {count(controls)} outsiders, the membership attack would have seen "
            f"an area under the curve above {number(auc.detectable)} in four of five trials; a weaker leak could go "
            "unseen."
        )
    if 0 < controls < 1000:
        sentences.append(
            f"Success at 0.1% false alarms needs 1,000 outsiders; there were {count(controls)}, so the most exposed "
            "one in a thousand could not be looked at."
        )
    return sentences


def twins(evaluation: Evaluation) -> tuple[str, ...]:
    """Plain words on duplicates among real rows, and what they mean for copies."""
    copies = (candidate.find("privacy.copies") for candidate in evaluation.candidates)
    shares = (each.reference for each in copies if isinstance(each, Estimate) and each.reference is not None)
    reference = next(shares, None)
    if reference is None:
        return ()
    if reference < 0.001:
        return (
            "Hardly any two real rows are equal, so a synthetic row that equals a training row calls for a reason.",
        )
    also = f" Within the training table, {percent(evaluation.real.duplicate_share_train)} of the rows have a twin."
    return (
        f"{percent(reference)} of fresh real rows, which nobody copied, equal some training row: different people gave "
        f"the same answers.{also} A table with few columns or few categories has many such twins.",
        "So equal rows alone are no leak. A generator that learned the population, and no one in particular, makes "
        f"about as many ({percent(reference)}). What is judged is the share beyond that, and whether the counts of "
        "equal rows match the training table more closely than chance allows.",
    )


Word = Literal["alarm", "no alarm", "not measured", "stated", "absent", "yours to judge"]
Answer = tuple[Word, str]  # A word, and a sentence without its full stop


@dataclass(frozen=True)
class Criterion:
    """What a guideline asks, how a table answers it inside and to hand on, and what that leaves open."""

    source: str
    title: str
    asks: str
    answer: Callable[[Candidate, Evaluation], Answer]
    uncovered: str
    public: str = "Measured inside, if at all, and not shown: see the limits."
    without: str = ""
    """The answer to hand on without a guarantee that holds, where it is another one."""


@dataclass(frozen=True)
class GuidelineRow:
    criterion: Criterion
    answers: tuple[tuple[str, Answer], ...]

    @property
    def same(self) -> bool:
        """True where one sentence answers for every candidate."""
        words, texts = ({answer[i] for _, answer in self.answers} for i in (0, 1))
        return len(texts) == 1 and words <= {"yours to judge", "stated", "absent"}


def criteria_rows(evaluation: Evaluation, candidates: Sequence[Candidate]) -> tuple[GuidelineRow, ...]:
    return tuple(
        GuidelineRow(each, tuple((c.name, each.answer(c, evaluation)) for c in candidates)) for each in CRITERIA
    )


def by_attacks(key: str) -> Callable[[Candidate, Evaluation], Answer]:
    """An answer from attacks: those that raise an alarm, else the smallest leak that they would have seen."""

    def answer(candidate: Candidate, _: Evaluation) -> Answer:
        lines = [line for line in attack_note(candidate).lines if key in CATALOG[line.measure].criteria]
        tried = [line for line in lines if line.value is not None]
        alarms = [line for line in tried if line.word == "alarm"]
        if not tried:
            return "not measured", "no attack of this kind gave a result"
        worst = (alarms or tried)[0]
        value, low, high = alike(*(worst.value or ()))
        seen = f", and {number(worst.detectable)} would have been seen" if worst.detectable is not None else ""
        n = f"{len(alarms)} of {len(tried)}" if alarms else f"{len(tried)}"
        missing = f"; {len(lines) - len(tried)} gave no result" if len(lines) > len(tried) else ""
        words = f"{n} attack{'s' * (len(tried) > 1)}; the worst, {worst.title[:1].lower()}{worst.title[1:]}, has"
        return "alarm" if alarms else "no alarm", f"{words} {worst.scale} {value} ({low} to {high}){seen}{missing}"

    return answer


def of_guarantee(candidate: Candidate, evaluation: Evaluation) -> Answer:
    statement, claims = candidate.statement, claims_of(evaluation, candidate)
    if statement is None or claims is None:
        return "absent", "no formal guarantee"
    if not claims.counted.private:
        return "absent", "void: its noise was not drawn from a secure source"
    rows, claim = statement.max_rows_per_unit, claims.counted if claims.reading else claims.alone
    unit = f"unit {plain(statement.unit, 40)}{f' of at most {rows} rows' if rows != 1 else ''}"
    what = f", for {claim.what}" if claims.reading else ""
    return "stated", f"epsilon {loss(claim.epsilon)} at delta {loss(claim.delta)}{what}, {unit}"


def of_audit(candidate: Candidate, _: Evaluation) -> Answer:
    if candidate.statement is None:
        return "absent", "no formal guarantee to test"
    note = audit_note(candidate)
    if note is None:
        failed = audit_failed(candidate)
        return "not measured", "the audit gave no result" if failed else "it was not audited"
    power = f"; {note.short}" if note.short else ""
    return "alarm" if note.alarms else "no alarm", f"audited lower bound {note.bound}{power}"


def of_utility(candidate: Candidate, _: Evaluation) -> Answer:
    gaps = [e.value for e in candidate.estimates if e.measure.startswith("utility.gap.")]
    parts = [f"loss of a model trained on it at most {number(max(gaps))}"] if gaps else []
    worst = groups_of(candidate)[:1]
    parts += [f"worst group {plain(group.group, 60)}: {group.what} {number(group.value)}" for group in worst]
    return ("stated", "; ".join(parts)) if parts else ("not measured", "no utility for models or groups was measured")


def of_schema(_: Candidate, evaluation: Evaluation) -> Answer:
    schema = evaluation.schema
    quasi, sensitive = (count(len(names)) if names else "no" for names in (schema.quasi_identifiers, schema.sensitive))
    return "stated", f"schema {schema.status}; {quasi} quasi-identifiers and {sensitive} sensitive columns named"


def of_identification(candidate: Candidate, evaluation: Evaluation) -> Answer:
    word, text = by_attacks("identifiability")(candidate, evaluation)
    copies = candidate.find("privacy.copies.people")
    beside = f"; people copied, beyond chance: {number(copies.value)}" if isinstance(copies, Estimate) else ""
    return word, text + beside


def of_governance(candidate: Candidate, _: Evaluation) -> Answer:
    booked = candidate.statement is not None and candidate.statement.ledger is not None
    kept = "its spending stands in a ledger" if booked else "no ledger holds its spending"
    return "yours to judge", f"{kept}; the sign-off above is to be filled in"


def to_judge(text: str) -> Callable[[Candidate, Evaluation], Answer]:
    return lambda _candidate, _evaluation: ("yours to judge", text)


_WP29, _NIST, _ISO = "WP29 Opinion 05/2014", "NIST SP 800-226", "ISO/IEC 27559:2022"

CRITERIA = (
    Criterion(
        _WP29, "Singling out", "Can a person still be isolated?", by_attacks("singling out"),
        "Predicates other than those that were drawn from the synthetic table.",
    ),
    Criterion(
        _WP29, "Linkability", "Can two records of one person be linked?", by_attacks("linkability"),
        "Linking with tables that were not at hand, and with earlier releases.",
    ),
    Criterion(
        _WP29, "Inference", "Can a value of a person be deduced from other values?", by_attacks("inference"),
        "What follows from the population alone, which may still harm people who are in no table.",
    ),
    Criterion(
        _NIST, "Privacy parameters and unit of privacy", "What is promised, and to whom?", of_guarantee,
        "Whether one unit is one person: nothing here can check it.",
        "See the privacy statement: epsilon, delta, unit and relation.", "There is no formal guarantee that holds.",
    ),
    Criterion(
        _NIST, "Algorithms and correctness", "Does the mechanism keep its promise?", of_audit,
        "An audit finds a broken promise and proves none.",
        "See the audit beside the privacy statement.",
        "There is no formal guarantee that holds, so that no mechanism is shown to keep one.",
    ),
    Criterion(
        _NIST, "Utility and bias", "Is it of use, and for every group alike?", of_utility,
        "Uses other than those tried, and groups that no column names.",
        "See the released numbers, if there are any; nothing is said of single groups.",
    ),
    Criterion(
        _NIST, "Trust model, access and collection", "Who holds the real data, and how is it guarded?",
        to_judge("the real table is read in the clear by whoever runs this"),
        "Security of the machine, side channels, and how the data was collected.",
        "The real table was read in the clear by whoever made this table.",
    ),
    Criterion(
        _ISO, "Context (clause 6)", "Who receives it, and what can they do?",
        to_judge("the audience is that of the policy"),
        "The recipient's other data, skills, motives and safeguards; the transparency owed to data subjects.",
        "The audience is that of the policy.",
    ),
    Criterion(
        _ISO, "Data (clause 7)", "Which attributes identify, and which hurt?", of_schema,
        "Whether the right columns were named: attacks by quasi-identifiers use no others.",
    ),
    Criterion(
        _ISO, "Identifiability (clause 8)", "How likely is it that somebody is identified?", of_identification,
        "A probability of attack: attacks here assume that somebody tries.",
    ),
    Criterion(
        _ISO, "Governance (clause 9)", "Who answers, for how long, and what if it goes wrong?", of_governance,
        "Review of recipients, incidents, and the deletion of copies that were passed on.",
        "See the sign-off of the bundle that this report lies in.",
    ),
)  # fmt: skip
"""Criteria, source by source."""

NOT_COVERED = (
    "Whether the table is anonymous in the law is a judgment on all means reasonably likely to be used, by whoever "
    "holds it, and no number here is that judgment.",
    "Harm to groups: a table that is faithful to a population says what is true of it, also where that hurts people.",
    "Harm from being wrong: a synthetic record that happens to fit a real person may be taken for that person's.",
)
"""Questions that none of these criteria covers."""
