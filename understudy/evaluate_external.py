"""The evaluation of synthetic tables from elsewhere: read, measured, judged, with what identifies them.

Whoever made a table, it is measured as one of ours.
"""

import secrets
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from evaluate.engine import evaluate_beside, proposed_schema
from evaluate.gate.decision import JUDGE
from evaluate.gate.policy import Policy
from evaluate.metrics import UNJUDGED
from evaluate.options import EvaluationOptions
from evaluate.provenance import Provenance
from evaluate.result import Estimate, Evaluation, EvaluationError, GeneratorRecord
from evaluate.result_io import evaluation_from
from evaluate.tables import Real
from synth.errors import JobError, SchemaError
from synth.generators.registry import load_model
from synth.progress import Progress
from synth.schema import Schema
from synth.schema_file import schema_of
from synth.table.rows import Rows
from synth.table.table import Table
from synth.table.text_files import SizeLimits
from synth.validation import GivenFile, read_given
from understudy import provenance
from understudy.data import RealTable, changed, digest, find_table, read_side
from understudy.job import child_seed
from understudy.job.load import check_measures, given_policy, named_policy
from understudy.provenance import check_training, count_attempt
from understudy.run.stages import audit_claim, claim_of, disproved, shadow_attacked, specification_of

CLAMPED = (
    "values of the real tables outside the schema were clamped, as --clamp asks; every number but the share of valid "
    "rows is about these tables as they were clamped"
)
"""Warning where real tables were clamped."""


@dataclass(frozen=True)
class Offer:
    """Tables to measure beside a real one; without a schema by that of the model, or as the real rows say."""

    train: str | Path = field(repr=False)
    holdout: str | Path | None = field(repr=False)
    synthetic: tuple[str | Path, ...] = field(repr=False)
    schema: Path | None = None
    model: Path | None = None
    audit: bool = True
    shadow_models: int | None = None
    options: EvaluationOptions = field(default_factory=EvaluationOptions)


def measure_offer(offer: Offer, progress: Progress) -> Evaluation:
    """The evaluation of an offer, whose synthetic tables must not change meanwhile."""
    from reports.sections.quality import given_away

    options, offered, sides = offer.options, _by_name(offer), {"train": find_table(str(offer.train))}
    if offer.holdout is not None:
        sides["holdout"] = find_table(str(offer.holdout))
    check_measures(options.measures or ())
    started, files = provenance.now(), dict[str, GivenFile]()
    if offer.schema is not None:
        files["schema"] = read_given(offer.schema, "schema", SchemaError)
    model = None if offer.model is None else load_model(offer.model)
    schema = schema_of(files["schema"]) if files else None if model is None else model.schema
    schema = options.aim(schema or proposed_schema([table.address for table in sides.values()], options))
    shadowed = None if model is None or offer.shadow_models is None else specification_of(model)
    key = provenance.fingerprint_key()
    rows = {side: read_side(side, table, schema, options.outside) for side, table in sides.items()}
    real = Real.prepare(rows["train"], rows.get("holdout"), schema, options)
    limits = SizeLimits.beside(real.train, len(rows["train"]))
    before = {name: _name_of_content(table, schema, key, limits) for name, table in offered.items()}
    databases = {f"synthetic/{name}": before[name] for name, table in offered.items() if table.is_database}
    prints = {**provenance.fingerprints(rows["train"], rows.get("holdout"), schema, key), **databases}
    if offer.model is not None:
        check_training(offer.model, prints, schema)
    # As they were given, violations and all: how many rows are valid is one of the measures.
    synthetic = {name: Table.of(table.address, limits=limits) for name, table in offered.items()}
    evaluation = evaluate_beside(
        real,
        synthetic,
        measures=options.measures,
        time_limit_s=options.time_limit_s,
        progress=progress,
        statements={name: model.statement for name in offered if model is not None and model.statement is not None},
        generators={name: GeneratorRecord(model.name) for name in offered if model is not None},
    )
    attempts = count_attempt(prints["table"], schema, attempt=secrets.token_hex(8), n_tables=len(offered))
    measured = []
    for candidate in evaluation.candidates:
        if shadowed is not None and offer.shadow_models is not None:
            beside = partial(real.beside, synthetic[candidate.name], candidate.statement)
            candidate = shadow_attacked(
                candidate, beside, shadowed, offer.shadow_models, time_limit_s=options.time_limit_s, progress=progress
            )
        if model is not None and model.statement is not None and offer.audit:
            candidate = audit_claim(
                candidate,
                partial(claim_of, model, model.statement),
                seed=child_seed(options.seed, "audit", candidate.name),
                time_limit_s=options.time_limit_s,
                progress=progress,
            )
        measured.append(candidate)
    for name, table in offered.items():
        if _name_of_content(table, schema, key, limits) != before[name]:
            raise changed(table.shown)
    evaluation = replace(evaluation, candidates=tuple(measured))
    shares = ((candidate.name, candidate.find(UNJUDGED)) for candidate in measured)
    unjudged = [f"{name}: {share.note}; {JUDGE}" for name, share in shares if isinstance(share, Estimate)]
    disputed = dict.fromkeys(sentence for candidate in measured for sentence in disproved(candidate))
    warnings = (*unverified(offer), *unjudged, *disputed, *given_away(evaluation))
    known = Provenance(
        warnings=warnings, attempts=attempts, evaluated_at=started, seed=options.seed, fingerprints=prints,
        files_sha256={f"synthetic/{Path(t.address).name}": before[n] for n, t in offered.items() if not t.is_database},
    )  # fmt: skip
    return replace(evaluation, provenance=provenance.with_inputs(known, files))


def _by_name(offer: Offer) -> dict[str, RealTable]:
    """The synthetic tables by their names, of an offer that goes together."""
    tables = {}
    for table in map(find_table, map(str, offer.synthetic)):
        path = Path(table.address)
        name = path.name
        if table.is_database:
            name = table.shown.rpartition("#")[2]
        elif not path.is_dir():
            name = name.removesuffix(".gz").removesuffix(path.suffix).removesuffix(".csv")
        tables[name] = table
    if len(tables) < len(offer.synthetic):
        raise JobError("two synthetic tables have the same file name, and each goes by its own; rename one")
    if offer.model is not None and len(tables) > 1:
        raise JobError("a model belongs to one synthetic table; evaluate that one alone, or leave the model out")
    if offer.shadow_models is not None and offer.model is None:
        raise JobError("shadow models are fitted by the parameters of a model, and none is named; pass --model")
    if offer.shadow_models is not None and offer.holdout is None:
        raise JobError("an attack by shadow models needs rows that the model did not see; pass --holdout")
    return tables


def _name_of_content(table: RealTable, schema: Schema, key: bytes, limits: SizeLimits) -> str:
    """The digest of files; rows in a database are in no file, and what they hold names them."""
    if table.is_database:
        return provenance.fingerprint(Rows.of(table.address, schema), schema, key)
    return digest(Path(table.address), limits)


def unverified(offer: Offer) -> tuple[str, ...]:
    """Warnings about claims of an offer that nobody can check."""
    clamped = (CLAMPED,) if offer.options.outside == "clamp" else ()
    if offer.model is None:
        return clamped
    return (
        f"the privacy statement is that of the model in {str(offer.model)!r}; that the table came from this model is "
        "what whoever offers it says, and is not verified",
        *clamped,
    )


def read_evaluation(path: Path) -> Evaluation:
    """An evaluation from its file."""
    content = read_given(path, "evaluation", EvaluationError).content
    try:
        return evaluation_from(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise EvaluationError(
            f"the evaluation cannot be read: path={str(path)!r}; pass a file that `understudy evaluate` wrote"
        ) from None


def read_policy(name_or_path: str) -> Policy:
    """A policy by the name it ships under, or from a file."""
    return named_policy(given_policy(name_or_path, Path()))
