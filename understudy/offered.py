"""Synthetic tables that somebody offers, whoever made them: read, measured, with what identifies them."""

import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from evaluate.engine import aimed, evaluate_beside
from evaluate.gate.policy import Policy, Waiver, build_waivers
from evaluate.result import Candidate, Evaluation, EvaluationError
from evaluate.result_io import evaluation_from
from evaluate.tables import N_ROWS, N_TARGETS, SAMPLE_ROWS
from synth.errors import JobError, SchemaError
from synth.generators.base import Generator, Model
from synth.generators.registry import load_model
from synth.input_file import GivenFile, read_given
from synth.progress import Progress
from synth.schema import Kind
from synth.schema_file import schema_of
from synth.table.conforming import Outside
from synth.validation import parse_toml
from understudy import provenance
from understudy.attempts import count_attempt
from understudy.auditing import audit_model, disproved
from understudy.inputs import check_measures
from understudy.offered_tables import CLAMPED, Draws, Given, Laid, laid_out
from understudy.policies import given_policy, named_policy
from understudy.real_table import Engine
from understudy.seeds import child_seed
from understudy.shadowing import SHADOW, attacked, shadow_attack, specification_of
from understudy.stored_refusals import check_sampled

LEAST_ROWS = 100
"""Fewer would leave an attack without any power, and a comparison without any precision."""


@dataclass(frozen=True)
class Offer:
    """Tables to measure against each other.

    Attributes:
        train: the real rows that the generator saw: a file, a folder or the URL of a database, which may hold a
            password and is never shown, like those below.
        holdout: the real rows that it did not see.
        synthetic: the tables to judge; each goes by its file's name.
        schema: file of the schema.
        model: folder of the model that made the one synthetic table; `None` where there is none.
        seed: of every draw.
        measures: which to take; `None`: all.
        time_limit_s: seconds for each measure; `None`: no limit.
        audit: whether the claim of the model, where it makes one, is audited on a public stand-in.
        target: the column that models predict; `None`: the schema's.
        shadow_models: models that the shadow-model attack fits, by the model's parameters; `None`: no attack.
        n_targets: rows of either side that attacks are tried on at most; `None`: every one.
        n_rows: rows of each table that marginal fidelity compares at most; `None`: all.
        engine: how files are read; folders and databases stay where they are stored, and then all tables do.
        sample_rows: rows of either real side that are drawn at most where tables stay stored; `None`: `SAMPLE_ROWS`.
        memory_mb: what embedded engines may take together; `None`: `MEMORY_MB`.
        threads: of each embedded engine; `None`: all cores.
        task: of the models that predict the target; `None`: the schema's, or by the target.
        outside: what to do with values of the real tables that do not fit the schema.
    """

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
    engine: Engine | None = None
    sample_rows: int | None = None
    memory_mb: int | None = None
    threads: int | None = None
    task: Kind | None = None
    outside: Outside = "refuse"


def measure_offer(offer: Offer, progress: Progress) -> Evaluation:
    """The evaluation of an offer.

    Raises:
        BadInput: a file cannot be read or does not fit the schema; nothing was measured.
    """
    from reports.utilities import given_away

    given = Given.of(
        str(offer.train), str(offer.holdout), tuple(map(str, offer.synthetic)), offer.engine,
        memory_mb=offer.memory_mb, threads=offer.threads,
    )  # fmt: skip
    check_sampled(offer.sample_rows, stored=given.stored)
    names = given.synthetic
    if offer.model is not None and len(names) > 1:
        raise JobError("a model belongs to one synthetic table; evaluate that one alone, or leave the model out")
    _check_shadows(offer, given)
    check_measures(offer.measures or ())
    started, files = provenance.now(), {"schema": read_given(offer.schema, "schema", SchemaError)}
    schema = aimed(schema_of(files["schema"]), offer.target, offer.task)
    model = None if offer.model is None else load_model(offer.model)
    shadowed = None if model is None or offer.shadow_models is None else specification_of(model)
    statement = None if model is None or model.statement is None else model.statement.to_dict()
    draws = Draws(offer.seed, offer.n_targets, offer.n_rows, offer.sample_rows or SAMPLE_ROWS, offer.outside)
    with laid_out(given, schema, draws) as laid:
        evaluation = evaluate_beside(
            laid.real,
            laid.synthetic,
            measures=offer.measures,
            time_limit_s=offer.time_limit_s,
            progress=progress,
            statements={name: statement for name in names if statement is not None},
            generators={name: {"generator": model.name} for name in names if model is not None},
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
    warned = (*unverified(offer), *disputed(evaluation), *given_away(evaluation))
    known = provenance.record(
        offer.seed,
        laid.prints,
        files,
        laid.sha256,
        provenance.Said(
            warnings=warned,
            attempts=attempts,
            evaluated_at=started,
        ),
    )
    return replace(evaluation, provenance=known)


def _check_shadows(offer: Offer, given: Given) -> None:
    """Refuse shadow models that nothing says how to fit, or whose rows stay where they are stored."""
    if offer.shadow_models is None:
        return
    if offer.model is None:
        raise JobError("shadow models are fitted by the parameters of a model, and none is named; pass --model")
    if given.stored:
        raise JobError(
            "shadow models are fitted on parts of the real rows, and these stay where they are stored; leave "
            "--shadow-models out"
        )


def parsed_rows(text: str, option: str = "targets") -> int | None:
    """How many rows a command asks for; `None`: every one.

    Raises:
        JobError: it is neither a number of at least 100 nor "all"; nothing was read.
    """
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < LEAST_ROWS:
        raise JobError(f"{option}={text!r} is neither a number of at least {LEAST_ROWS} nor all; pass one of these")
    return int(text)


def disputed(evaluation: Evaluation) -> tuple[str, ...]:
    """Warnings for each claim that its audit disproves."""
    return tuple(dict.fromkeys(sentence for one in evaluation.candidates for sentence in disproved(one)))


def _audited(offer: Offer, candidate: Candidate, model: Model, progress: Progress) -> Candidate:
    seed = child_seed(offer.seed, "audit", candidate.name)
    return audit_model(candidate, model, seed=seed, time_limit_s=offer.time_limit_s, progress=progress)


def _shadowed(
    offer: Offer, candidate: Candidate, laid: Laid, chosen: Generator, progress: Progress
) -> Candidate:  # fmt: skip
    synthetic = laid.synthetic[candidate.name]
    assert offer.shadow_models is not None
    assert isinstance(synthetic, pd.DataFrame)
    attack = shadow_attack(
        lambda: laid.real.beside(synthetic, candidate.statement), chosen, offer.shadow_models, progress
    )
    return attacked(candidate, SHADOW, attack, offer.time_limit_s)


def unverified(offer: Offer) -> tuple[str, ...]:
    """What nobody can check about an offer."""
    said = (CLAMPED,) if offer.outside == "clamp" else ()
    if offer.model is None:
        return said
    return (
        f"the privacy statement is that of the model in {str(offer.model)!r}; that the table came from this model is "
        "what whoever offers it says, and is not verified",
        *said,
    )


def read_evaluation(path: Path) -> Evaluation:
    """An evaluation from its file.

    Raises:
        EvaluationError: the file cannot be read, or is not an evaluation.
    """
    given = read_given(path, "evaluation", EvaluationError)
    try:
        return evaluation_from(given.content.decode("utf-8"))
    except UnicodeDecodeError:
        raise EvaluationError(
            f"the evaluation cannot be read: path={str(path)!r}; pass a file that `understudy evaluate` wrote"
        ) from None


def read_policy(name_or_path: str) -> Policy:
    """A policy by the name it ships under, or from a file.

    Raises:
        JobError: there is no such policy, or it cannot be used.
    """
    return judging(name_or_path, None)[0]


def judging(policy: str, waivers: Path | None) -> tuple[Policy, tuple[Waiver, ...], dict[str, GivenFile]]:
    """What to judge by, with the files of "policy" and "waivers" as they were understood.

    Args:
        policy: a shipped policy's name, or the path of a file.
        waivers: the file of waivers; `None`: no rule is waived.

    Raises:
        JobError: one of them cannot be used; nothing was judged.
    """
    given = {"policy": given_policy(policy, Path())}
    rules = named_policy(given["policy"])
    if waivers is None:
        return rules, (), given
    given["waivers"] = read_given(waivers, "waivers", JobError)
    return rules, build_waivers(parse_toml(given["waivers"], "waivers", JobError)), given
