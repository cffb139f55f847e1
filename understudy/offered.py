"""Synthetic tables that somebody offers, whoever made them: read, measured, with what identifies them."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import evaluate as measuring
from evaluate.engine import aimed
from evaluate.policy import Policy
from evaluate.result import Candidate, Evaluation, EvaluationError
from evaluate.result_reading import evaluation_from
from evaluate.tables import N_TARGETS, Real
from evaluate.waiver import Waiver, build_waivers
from synth.errors import JobError, SchemaError
from synth.generators.base import Generator, Model
from synth.generators.registry import load_model
from synth.given_file import GivenFile, read_given
from synth.progress import Progress
from synth.schema import Schema
from synth.schema_file import schema_of
from synth.table import conform, read_table
from synth.table.limits import Limits
from synth.validation import parse_toml
from understudy import provenance
from understudy.attempts import count_attempt
from understudy.auditing import audit_model, disproved
from understudy.digested import read_digested
from understudy.inputs import check_measures
from understudy.policies import given_policy, named_policy
from understudy.seeds import child_seed
from understudy.shadowing import SHADOW, attacked, shadow_attack, specification_of

if TYPE_CHECKING:
    import pandas as pd

LEAST_TARGETS = 100
"""Fewer would leave an attack without any power."""


@dataclass(frozen=True)
class Offer:
    """Tables to measure against each other.

    Attributes:
        train: file of the real rows that the generator saw.
        holdout: file of the real rows that it did not see.
        synthetic: files of the tables to judge; each goes by its file's name.
        schema: file of the schema.
        model: folder of the model that made the one synthetic table; none where there is none.
        seed: of every draw.
        measures: which to take; none: all.
        time_limit_s: seconds for each measure; none: no limit.
        audit: whether the claim of the model, where it makes one, is audited on a public stand-in.
        target: the column that models predict; none: the schema's.
        shadow_models: models that the shadow-model attack fits, by the model's parameters; none: no attack.
        n_targets: rows of either side that attacks are tried on at most; none: every one.
    """

    train: Path
    holdout: Path
    synthetic: tuple[Path, ...]
    schema: Path
    model: Path | None = None
    seed: int = 0
    measures: tuple[str, ...] | None = None
    time_limit_s: float | None = None
    audit: bool = True
    target: str | None = None
    shadow_models: int | None = None
    n_targets: int | None = N_TARGETS


def measure_offer(offer: Offer, progress: Progress) -> Evaluation:
    """The evaluation of an offer.

    Raises:
        BadInput: a file cannot be read or does not fit the schema; nothing was measured.
    """
    names = _named(offer)
    if offer.shadow_models is not None and offer.model is None:
        raise JobError("shadow models are fitted by the parameters of a model, and none is named; pass --model")
    check_measures(offer.measures or ())
    started, given = provenance.now(), {"schema": read_given(offer.schema, "schema", SchemaError)}
    schema = schema_of(given["schema"])
    model = None if offer.model is None else load_model(offer.model)
    shadowed = None if model is None or offer.shadow_models is None else specification_of(model)
    statement = None if model is None or model.statement is None else model.statement.to_dict()
    key = provenance.fingerprint_key(provenance.key_path())
    train, holdout = (conform(read_table(path), schema, part=True) for path in (offer.train, offer.holdout))
    # As they were given, violations and all: how many rows are valid is one of the measures.
    tables = {name: read_digested(path, Limits.beside(train)) for name, path in names.items()}
    evaluation = measuring.evaluate(
        train,
        holdout,
        {name: table.frame for name, table in tables.items()},
        schema,
        measures=offer.measures,
        time_limit_s=offer.time_limit_s,
        seed=offer.seed,
        target=offer.target,
        n_targets=offer.n_targets,
        progress=progress,
        statements={name: statement for name in names if statement is not None},
        generators={name: {"generator": model.name} for name in names if model is not None},
    )
    prints = provenance.fingerprints(train, holdout, schema, key)
    attempts = count_attempt(prints["table"], schema, attempt=secrets.token_hex(8), n_tables=len(names))
    candidates = evaluation.candidates
    if shadowed is not None:
        real = Real.prepare(train, holdout, _aimed(offer, schema), seed=offer.seed, n_targets=offer.n_targets)
        candidates = tuple(
            _shadowed(offer, one, tables[one.name].frame, real, shadowed, progress) for one in candidates
        )  # fmt: skip
    if model is not None and offer.audit:
        candidates = tuple(_audited(offer, candidate, model, progress) for candidate in candidates)
    evaluation = replace(evaluation, candidates=candidates)
    known = provenance.record(
        offer.seed,
        prints,
        given,
        {f"synthetic/{table.path.name}": table.sha256 for table in tables.values()},
        provenance.Said(warnings=(*unverified(offer), *disputed(evaluation)), attempts=attempts, evaluated_at=started),
    )
    return replace(evaluation, provenance=known)


def parsed_targets(text: str) -> int | None:
    """How many targets a command asks for; none: every one.

    Raises:
        JobError: it is neither a number of at least 100 nor "all"; nothing was read.
    """
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < LEAST_TARGETS:
        raise JobError(f"targets={text!r} is neither a number of at least {LEAST_TARGETS} nor all; pass one of these")
    return int(text)


def disputed(evaluation: Evaluation) -> tuple[str, ...]:
    """Warnings for each claim that its audit disproves."""
    return tuple(dict.fromkeys(sentence for one in evaluation.candidates for sentence in disproved(one)))


def _audited(offer: Offer, candidate: Candidate, model: Model, progress: Progress) -> Candidate:
    seed = child_seed(offer.seed, "audit", candidate.name)
    return audit_model(candidate, model, seed=seed, time_limit_s=offer.time_limit_s, progress=progress)


def _shadowed(
    offer: Offer, candidate: Candidate, synthetic: "pd.DataFrame", real: Real, chosen: Generator, progress: Progress
) -> Candidate:  # fmt: skip
    assert offer.shadow_models is not None
    attack = shadow_attack(
        lambda: real.beside(synthetic, candidate.statement), chosen, offer.shadow_models, progress
    )  # fmt: skip
    return attacked(candidate, SHADOW, attack, offer.time_limit_s)


def _aimed(offer: Offer, schema: Schema) -> Schema:
    return schema if offer.target is None else aimed(schema, offer.target)


def unverified(offer: Offer) -> tuple[str, ...]:
    """What nobody can check about an offer."""
    if offer.model is None:
        return ()
    return (
        f"the privacy statement is that of the model in {str(offer.model)!r}; that the table came from this model is "
        "what whoever offers it says, and is not verified",
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
        waivers: the file of waivers; none: no rule is waived.

    Raises:
        JobError: one of them cannot be used; nothing was judged.
    """
    given = {"policy": given_policy(policy, Path())}
    rules = named_policy(given["policy"])
    if waivers is None:
        return rules, (), given
    given["waivers"] = read_given(waivers, "waivers", JobError)
    return rules, build_waivers(parse_toml(given["waivers"], "waivers", JobError)), given


def _named(offer: Offer) -> Mapping[str, Path]:
    names = {
        path.name.removesuffix(".gz").removesuffix(path.suffix).removesuffix(".csv"): path for path in offer.synthetic
    }
    if len(names) < len(offer.synthetic):
        raise JobError("two synthetic tables have the same file name, and each goes by its own; rename one")
    if offer.model is not None and len(names) > 1:
        raise JobError("a model belongs to one synthetic table; evaluate that one alone, or leave the model out")
    return names
