"""The evaluation of synthetic tables from elsewhere: read, measured, judged, with what identifies them.

Whoever made a table, it is measured as one of ours.
"""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from evaluate.engine import aimed, evaluate_beside
from evaluate.gate.policy import Policy, Waiver, build_waivers
from evaluate.gate.undecided import JUDGE
from evaluate.metrics import UNJUDGED
from evaluate.provenance import Provenance
from evaluate.result import Candidate, Estimate, Evaluation, EvaluationError, GeneratorRecord
from evaluate.result_io import evaluation_from
from evaluate.tables import N_ROWS, N_TARGETS, SAMPLE_ROWS, Real
from synth.errors import JobError, SchemaError
from synth.generators.base import Generator
from synth.generators.models.model import Model
from synth.generators.registry import load_model
from synth.parsing import GivenFile, read_given
from synth.progress import Progress
from synth.schema import Schema, TaskKind
from synth.schema_file import schema_of
from synth.table.conforming import Outside
from synth.table.limits import SizeLimits
from synth.table.rows import Rows
from synth.table.table import Table
from synth.validation import parse_toml
from understudy import provenance
from understudy.data.load import read_side
from understudy.data.source import RealTable, find_table
from understudy.evaluation_log import check_training, count_attempt
from understudy.hashed_table import changed, digest
from understudy.job.load import check_measures, given_policy, named_policy
from understudy.job.seeds import child_seed
from understudy.run.attacks import SHADOW, attacked, audit_model, disproved, shadow_attack, specification_of

CLAMPED = (
    "values of the real tables outside the schema were clamped, as --clamp asks; every number but the share of valid "
    "rows is about these tables as they were clamped"
)
"""Warning where real tables were clamped."""


@dataclass(frozen=True)
class ExternalTables:
    """The places of the tables of an offer."""

    train: RealTable
    holdout: RealTable
    synthetic: Mapping[str, RealTable]

    @classmethod
    def of(cls, train: str, holdout: str, synthetic: tuple[str, ...]) -> "ExternalTables":
        """The tables that texts name."""
        names = {_name_of(table): table for table in map(find_table, synthetic)}
        if len(names) < len(synthetic):
            raise JobError("two synthetic tables have the same file name, and each goes by its own; rename one")
        return cls(find_table(train), find_table(holdout), names)


@dataclass(frozen=True)
class Draws:
    """The seed and the sizes of samples of rows."""

    seed: int
    n_targets: int | None = N_TARGETS
    n_rows: int | None = N_ROWS
    sample_rows: int = SAMPLE_ROWS
    outside: Outside = "refuse"


@dataclass(frozen=True)
class Laid:
    """The tables of an offer as measures take them.

    Attributes:
        real: *Sensitive*. The real side.
    """

    real: Real
    synthetic: Mapping[str, Table]
    sha256: Mapping[str, str]
    prints: Mapping[str, str]


@contextmanager
def laid_out(given: ExternalTables, schema: Schema, draws: Draws) -> Iterator[Laid]:
    """The tables of an offer, as long as the block lasts, in which synthetic ones must not change."""
    key = provenance.fingerprint_key(provenance.key_path())
    train = read_side("train", given.train, schema, draws.outside)
    holdout = read_side("holdout", given.holdout, schema, draws.outside)
    real = Real.prepare(train, holdout, schema, **asdict(draws))
    limits = SizeLimits.beside(real.train, real.n_all("train"))
    before = {name: _name_of_content(table, schema, key, limits) for name, table in given.synthetic.items()}
    # As they were given, violations and all: how many rows are valid is one of the measures.
    synthetic = {name: Table.of(table.address, limits=limits) for name, table in given.synthetic.items()}
    databases = {name for name, table in given.synthetic.items() if table.is_database}
    yield Laid(
        real,
        synthetic,
        {f"synthetic/{Path(given.synthetic[n].address).name}": x for n, x in before.items() if n not in databases},
        {
            **provenance.fingerprints(train, holdout, schema, key),
            **{f"synthetic/{name}": before[name] for name in databases},
        },
    )
    for name, table in given.synthetic.items():
        if _name_of_content(table, schema, key, limits) != before[name]:
            raise changed(table.shown)


def _name_of_content(table: RealTable, schema: Schema, key: bytes, limits: SizeLimits) -> str:
    """The digest of files; rows in a database are in no file, and what they hold names them."""
    if table.is_database:
        return provenance.fingerprint(Rows.of(table.address, schema), schema, key)
    return digest(Path(table.address), limits)


def _name_of(table: RealTable) -> str:
    """The name of a synthetic table: its file's or folder's, or its own in its database.

    >>> _name_of(find_table("postgresql://host/database#offers.first"))
    'offers.first'
    """
    if table.is_database:
        return table.shown.rpartition("#")[2]
    path = Path(table.address)
    return path.name if path.is_dir() else path.name.removesuffix(".gz").removesuffix(path.suffix).removesuffix(".csv")


LEAST_ROWS = 100
"""Fewer would leave an attack without any power, and a comparison without any precision."""


@dataclass(frozen=True)
class Offer:
    """Tables to measure against each other."""

    train: str | Path = field(repr=False)
    holdout: str | Path = field(repr=False)
    synthetic: tuple[str | Path, ...] = field(repr=False)
    schema: Path
    model: Path | None = None
    seed: int = 0
    measures: tuple[str, ...] | None = None
    time_limit_s: float | None = None
    audit: bool = True
    target: str | None = None
    shadow_models: int | None = None
    n_targets: int | None = N_TARGETS
    n_rows: int | None = N_ROWS
    sample_rows: int = SAMPLE_ROWS
    task: TaskKind | None = None
    outside: Outside = "refuse"


def measure_offer(offer: Offer, progress: Progress) -> Evaluation:
    """The evaluation of an offer."""
    from reports.sections.utility import given_away

    given = ExternalTables.of(str(offer.train), str(offer.holdout), tuple(map(str, offer.synthetic)))
    names = given.synthetic
    if offer.model is not None and len(names) > 1:
        raise JobError("a model belongs to one synthetic table; evaluate that one alone, or leave the model out")
    if offer.shadow_models is not None and offer.model is None:
        raise JobError("shadow models are fitted by the parameters of a model, and none is named; pass --model")
    check_measures(offer.measures or ())
    started, files = provenance.now(), {"schema": read_given(offer.schema, "schema", SchemaError)}
    schema = aimed(schema_of(files["schema"]), offer.target, offer.task)
    model = None if offer.model is None else load_model(offer.model)
    shadowed = None if model is None or offer.shadow_models is None else specification_of(model)
    statement = None if model is None else model.statement
    draws = Draws(offer.seed, offer.n_targets, offer.n_rows, offer.sample_rows, offer.outside)
    with laid_out(given, schema, draws) as laid:
        if offer.model is not None:
            check_training(offer.model, laid.prints, schema)
        evaluation = evaluate_beside(
            laid.real,
            laid.synthetic,
            measures=offer.measures,
            time_limit_s=offer.time_limit_s,
            progress=progress,
            statements={name: statement for name in names if statement is not None},
            generators={name: GeneratorRecord(model.name) for name in names if model is not None},
        )
        attempts = count_attempt(
            laid.prints["table"], schema, attempt=secrets.token_hex(8), n_tables=len(names)
        )  # fmt: skip
        candidates = evaluation.candidates
        if shadowed is not None:
            candidates = tuple(_shadowed(offer, one, laid, shadowed, progress) for one in candidates)
    if model is not None and offer.audit:
        candidates = tuple(_audited(offer, candidate, model, progress) for candidate in candidates)
    evaluation = replace(evaluation, candidates=candidates)
    warned = (*unverified(offer), *unjudged(evaluation), *disputed(evaluation), *given_away(evaluation))
    known = Provenance(
        warnings=warned, attempts=attempts, evaluated_at=started, seed=offer.seed, fingerprints=laid.prints,
        files_sha256=laid.sha256,
    )  # fmt: skip
    return replace(evaluation, provenance=provenance.with_inputs(known, files))


def parsed_rows(text: str, option: str = "targets") -> int | None:
    """The number of rows that a command asks for; `None`: every one."""
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < LEAST_ROWS:
        raise JobError(f"{option}={text!r} is neither a number of at least {LEAST_ROWS} nor all; pass one of these")
    return int(text)


def disputed(evaluation: Evaluation) -> tuple[str, ...]:
    """Warnings for each claim that its audit disproves."""
    return tuple(dict.fromkeys(sentence for one in evaluation.candidates for sentence in disproved(one)))


def unjudged(evaluation: Evaluation) -> tuple[str, ...]:
    """Warnings for each table with columns that no measure compared."""
    known = ((one.name, one.find(UNJUDGED)) for one in evaluation.candidates)
    return tuple(f"{name}: {found.note}; {JUDGE}" for name, found in known if isinstance(found, Estimate))


def _audited(offer: Offer, candidate: Candidate, model: Model, progress: Progress) -> Candidate:
    seed = child_seed(offer.seed, "audit", candidate.name)
    return audit_model(candidate, model, seed=seed, time_limit_s=offer.time_limit_s, progress=progress)


def _shadowed(
    offer: Offer, candidate: Candidate, laid: Laid, chosen: Generator, progress: Progress
) -> Candidate:  # fmt: skip
    synthetic = laid.synthetic[candidate.name]
    if offer.shadow_models is None:
        return candidate
    attack = shadow_attack(
        lambda: laid.real.beside(synthetic, candidate.statement), chosen, offer.shadow_models, progress
    )
    return attacked(candidate, SHADOW, attack, offer.time_limit_s)


def unverified(offer: Offer) -> tuple[str, ...]:
    """Warnings about claims of an offer that nobody can check."""
    said = (CLAMPED,) if offer.outside == "clamp" else ()
    if offer.model is None:
        return said
    return (
        f"the privacy statement is that of the model in {str(offer.model)!r}; that the table came from this model is "
        "what whoever offers it says, and is not verified",
        *said,
    )


def read_evaluation(path: Path) -> Evaluation:
    """An evaluation from its file."""
    given = read_given(path, "evaluation", EvaluationError)
    try:
        return evaluation_from(given.content.decode("utf-8"))
    except UnicodeDecodeError:
        raise EvaluationError(
            f"the evaluation cannot be read: path={str(path)!r}; pass a file that `understudy evaluate` wrote"
        ) from None


def read_policy(name_or_path: str) -> Policy:
    """A policy by the name it ships under, or from a file."""
    return judging(name_or_path, None)[0]


def judging(policy: str, waivers: Path | None) -> tuple[Policy, tuple[Waiver, ...], dict[str, GivenFile]]:
    """The policy and its waivers, with the files of "policy" and "waivers" as they were understood."""
    given = {"policy": given_policy(policy, Path())}
    rules = named_policy(given["policy"])
    if waivers is None:
        return rules, (), given
    given["waivers"] = read_given(waivers, "waivers", JobError)
    return rules, build_waivers(parse_toml(given["waivers"], "waivers", JobError)), given
