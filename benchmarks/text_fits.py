"""Fits of texts that hold secrets: which of them stand in synthetic texts, and how near these are to real ones.

Three kinds of secrets are in the training texts. Sentences with a name, a telephone number and a code, each in one row
(`tests.text_tables.secret`). Canaries of another form, each in one row. And canaries that are in several rows each,
whom a guarantee for single rows protects less.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

import synth
from benchmarks.neural_point import Watch
from benchmarks.public_texts import like, unlike, written
from benchmarks.text_canaries import Canary, exposures, find_canaries, plant
from evaluate.engine import evaluate_beside
from evaluate.gate.policy import load_policy
from evaluate.gate.verdict import judge_candidate
from evaluate.metrics import CATALOG
from evaluate.result import UNASKED
from evaluate.tables import Real
from synth.dp.schedule_file import stated_schedule
from synth.schema import Schema
from tests.text_tables import TEXT, complaint_schema, complaints

LENGTH, N_SECRETS = 240, 40
SINGLE, REPEATED = (8, 1, "My reference is ###-##-####."), (4, 8, "My account is ####-####.")
"""Canaries: how many, rows of each, and their form."""
MEASURES = ("fidelity.texts", "utility.texts", "privacy.texts", "privacy.texts.membership")
PUBLIC = {"none": None, "of the same kind": like, "of another kind": unlike}
"""Public texts, by name."""
MAX_TOKENS = {"none": 240, "of the same kind": 96, "of another kind": 144}
"""With epsilon, where tokens come from public texts alone: without any they are single bytes."""
LANDMARKS = ("training texts copied", "fresh real texts", "texts dealt at random to rows")


@dataclass(frozen=True)
class Sizes:
    """How large fits are.

    Attributes:
        rows: of the training table, and of the holdout.
        epochs: without epsilon.
        steps: with epsilon.
        d_model: width of the decoder.
        themes: with epsilon, that rows are counted by.
        generator: of rows.
    """

    rows: int = 800
    epochs: int = 40
    steps: int = 60
    d_model: int = 64
    themes: int = 0
    generator: str = "mst"


@dataclass(frozen=True)
class Case:
    """Tables of one seed.

    Attributes:
        train: with secrets and canaries.
        holdout: of other people, who have secrets of their own.
        schema: declared.
        secrets: sentences of one training row each.
        single: canaries in one row each.
        repeated: canaries in several rows each.
        seed: of all of it.
    """

    train: pd.DataFrame
    holdout: pd.DataFrame
    schema: Schema
    secrets: tuple[str, ...]
    single: tuple[Canary, ...]
    repeated: tuple[Canary, ...]
    seed: int

    @classmethod
    def of(cls, rows: int, seed: int) -> "Case":
        """The tables of a seed; canaries are in rows without a secret.

        Args:
            rows: of the training table, and of the holdout.
            seed: of all draws.
        """
        schema = complaint_schema(rows, length=LENGTH)
        table = complaints(rows, seed, N_SECRETS)
        rest = table.iloc[N_SECRETS:].reset_index(drop=True)
        half = len(rest) // 2
        parts, canaries = [], []
        for part, (n, repeats, form) in zip((rest.iloc[:half], rest.iloc[half:]), (SINGLE, REPEATED), strict=True):
            planted, facts = plant(part.reset_index(drop=True), schema, n, repeats, seed, form)
            shift = N_SECRETS + half * len(parts)
            parts.append(planted)
            canaries.append(tuple(_moved(each, shift) for each in facts))
        train = pd.concat([table.iloc[:N_SECRETS], *parts], ignore_index=True)
        secrets = tuple(text[text.rindex("Call ") :] for text in table[TEXT][:N_SECRETS])
        return cls(train, complaints(rows, seed + 500, N_SECRETS), schema, secrets, *canaries, seed)


def _moved(canary: Canary, shift: int) -> Canary:
    return Canary(canary.column, canary.sentence, canary.form, tuple(row + shift for row in canary.rows))


def fitted(case: Case, epsilon: float | None, public: str, sizes: Sizes, folder: Path) -> dict[str, Any]:
    """One fit, a sample of as many rows, and its scores.

    Args:
        case: the tables.
        epsilon: of the fit; `None`: without a guarantee.
        public: name of the public texts.
        sizes: of the fit.
        place: folder for their file.
    """
    # The whole distribution is drawn from: what is rare, as secrets are, would else be cut off.
    text: dict[str, Any] = {"d_model": sizes.d_model, "vocabulary": 800, "top_p": 1.0, "device": "cpu"}
    offered = PUBLIC[public]
    if offered is not None:
        path = written(offered(), folder / "public.txt")
        text |= {"public_text": str(path), "public_epochs": 20, "themes": sizes.themes}
    text |= {"epochs": sizes.epochs} if epsilon is None else {"steps": sizes.steps}
    text |= {"max_tokens": MAX_TOKENS["of another kind" if epsilon is None else public]}
    watch = Watch()
    model: Any = synth.fit(case.train, case.schema, sizes.generator, epsilon=epsilon, seed=case.seed, text=text)
    _, fit_s = watch.read()
    synthetic = model.sample(len(case.train), seed=case.seed)
    _, sample_s = watch.read()
    scores = scored(case, synthetic, model.statement)
    losses = [model.text_losses(rows, TEXT) for rows in (case.train, case.holdout)]
    scores["by loss"] = round(
        float(roc_auc_score(np.repeat([0, 1], [len(each) for each in losses]), np.r_[*losses])), 4
    )
    for name, canaries in (("single", case.single), ("repeated", case.repeated)):
        bits = exposures(canaries, case.train, model.text_losses, case.seed, n_others=255)
        scores[f"exposure, {name}"] = [round(float(item), 2) for item in bits]
    _, scored_s = watch.read()
    examples = [str(item) for item in synthetic[TEXT].dropna()[:3]]
    return {
        "fit_cpu_s": round(fit_s, 1), "sample_cpu_s": round(sample_s, 1), "scored_cpu_s": round(scored_s, 1),
        "text": {name: value for name, value in text.items() if name != "public_text"}, **scores, "examples": examples,
    }  # fmt: skip


def pairs_off(rows: int, seed: int, epsilon: float, sizes: Sizes, folder: Path) -> float:
    """How far pairs of the other columns are off by total variation, on average, where no step is taken on texts.

    Args:
        rows: of the training table.
        seed: of table and fit.
        epsilon: of the fit.
        sizes: its themes, and the generator of rows. The decoder plays no part, and is as small as it can be.
        place: folder for the public texts.
    """
    train = complaints(rows, seed)
    text = {"public_text": str(written(like(), folder / "public.txt")), "themes": sizes.themes, "steps": 0}
    text |= {"public_epochs": 1, "d_model": 16, "n_layers": 1, "max_tokens": 8, "device": "cpu"}
    schema = complaint_schema(rows, length=LENGTH)
    model: Any = synth.fit(train, schema, sizes.generator, epsilon=epsilon, seed=seed, text=text)
    drawn = model.rows.sample(rows, seed=seed)
    shares = [
        [frame.groupby([frame[name].astype(str) for name in pair]).size() / rows for frame in (train, drawn)]
        for pair in combinations(("product", "channel", "rating"), 2)
    ]
    return float(np.mean([each.sub(other, fill_value=0).abs().sum() / 2 for each, other in shares]))


def landmark(case: Case, name: str) -> dict[str, Any]:
    """The scores of a table that no model made."""
    if name == LANDMARKS[0]:
        return scored(case, case.train, None)
    fresh = complaints(len(case.train), case.seed + 700, N_SECRETS)
    if name == LANDMARKS[2]:
        fresh[TEXT] = fresh[TEXT].to_numpy()[np.random.default_rng(case.seed).permutation(len(fresh))]
    return scored(case, fresh, None)


def scored(case: Case, synthetic: pd.DataFrame, statement: Any) -> dict[str, Any]:
    """Secrets in the synthetic texts, the evaluation's numbers, and what the policy says of them."""
    joined = "\n".join(text for text in synthetic[TEXT] if isinstance(text, str))
    single, repeated = (find_canaries(canaries, synthetic) for canaries in (case.single, case.repeated))
    facts: dict[str, Any] = {
        "secrets": sum(secret in joined for secret in case.secrets),
        "numbers": sum(_number(secret) in joined for secret in case.secrets),
        "canaries, single": int(single.secrets.sum()), "canaries, repeated": int(repeated.secrets.sum()),
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return facts | _evaluated(case, synthetic, statement)


def _number(secret: str) -> str:
    """The telephone number of a secret."""
    return secret.partition(" at ")[2].partition(",")[0]


def _evaluated(case: Case, synthetic: pd.DataFrame, statement: Any) -> dict[str, Any]:
    real = Real.prepare(case.train, case.holdout, case.schema, seed=case.seed, outside="clamp")
    evaluation = evaluate_beside(
        real, {"it": synthetic}, measures=MEASURES, self_tested=False,
        statements={} if statement is None else {"it": statement},
    )  # fmt: skip
    (candidate,) = evaluation.candidates
    policy = load_policy("internal")
    kept = tuple(rule for rule in policy.rules if rule.measure in CATALOG and CATALOG[rule.measure].needs == "texts")
    limit = None if statement is None else stated_schedule("", statement.to_dict()).trade_off
    verdict = judge_candidate(
        candidate, policy.model_copy(update={"rules": kept}), self_tests=None, limit=limit, real=evaluation.real
    )  # fmt: skip
    return {
        "numbers of texts": {
            each.measure: [_plain(each.value), _plain(each.low), _plain(each.high), _plain(each.reference)]
            for each in candidate.estimates
            if not each.subject or each.subject == (TEXT, "rating")
        },
        "failures": {each.measure: each.message for each in candidate.failures if each.message != UNASKED},
        "verdict": verdict.verdict,
        "findings": {finding.rule.measure: finding.outcome for finding in verdict.findings},
        "reasons": [finding.reason for finding in verdict.findings if finding.outcome != "PASS" and finding.counts],
    }  # fmt: skip


def _plain(value: float | None) -> float | None:
    return None if value is None else round(float(value), 4)


def median(runs: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """The median of a number over seeds, found at the top or among the evaluation's."""
    kept = []
    for run in runs:
        value = run.get(name, run["numbers of texts"].get(name))
        value = value[0] if isinstance(value, list) and name in run["numbers of texts"] else value
        if value is not None:
            kept.append(float(np.median(value)))
    return float(np.median(kept)) if kept else None
