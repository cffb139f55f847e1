"""A realistic evaluation of three synthetic tables, made by code: Adult-like columns, numbers as the measures give."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluate.gate.policy import load_policy
from evaluate.gate.verdict import Verdict, judge_candidate
from evaluate.provenance import Provenance
from evaluate.real_facts import RealFacts, Shift
from evaluate.result import Candidate, Estimate, Evaluation, Failure, GeneratorRecord
from synth.dp.statement import PrivacyStatement
from synth.schema import build_schema
from tests.evaluations import conclude

COLUMNS: dict[str, list[str] | int] = {
    "age": 20, "workclass": ["Private", "Self-emp-not-inc", "Local-gov", "State-gov", "Self-emp-inc", "Federal-gov"],
    "fnlwgt": 20, "education": [f"grade {i}" for i in range(16)], "education_num": 16,
    "marital_status": ["Married-civ-spouse", "Never-married", "Divorced", "Separated", "Widowed"],
    "occupation": [f"occupation {i}" for i in range(14)],
    "relationship": ["Husband", "Not-in-family", "Own-child", "Unmarried", "Wife", "Other-relative"],
    "race": ["White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"], "sex": ["Male", "Female"],
    "capital_gain": 6, "capital_loss": 6, "hours_per_week": 12,
    "native_country": [f"country {i}" for i in range(41)], "income": ["<=50K", ">50K"],
}  # fmt: skip

QUALITY = {
    "mst": {"tv1": 0.021, "tv2": 0.061, "share": 0.55, "tstr": 0.861, "auc": 0.503, "excess": -0.004, "multiset": 1.01},
    "sdv.gaussian_copula": {
        "tv1": 0.124, "tv2": 0.212, "share": 1.12, "tstr": 0.781, "auc": 0.501, "excess": -0.006, "multiset": 1.01,
    },
    "sdv.tvae": {
        "tv1": 0.083, "tv2": 0.107, "share": 0.58, "tstr": 0.884, "auc": 0.53, "excess": 0.012, "multiset": 1.01,
    },
}  # fmt: skip


def sample_evaluation(renamed: dict[str, str] | None = None, seed: int = 0) -> Evaluation:
    """Three candidates on one table of 15 columns; `renamed` gives columns other names."""
    names = [(renamed or {}).get(name, name) for name in COLUMNS]
    rng = np.random.default_rng(seed)
    shares = [_real(spec, rng) for spec in COLUMNS.values()]
    candidates = tuple(
        _candidate(name, names, shares, np.random.default_rng([seed, i])) for i, name in enumerate(QUALITY)
    )
    shift = Shift(n_train=39074, n_holdout=9768, p_value=0.4, detectable=0.53)
    real = RealFacts(39074, 9768, 195, 0.0231, len(names), names[-1], shift=shift)
    schema = build_schema({
        "status": "declared", "n_units": 39074, "target": names[-1], "sensitive": [names[8]],
        "columns": {
            name: {"kind": "integer", "bounds": [0, 100], "missing": False}
            if isinstance(spec, int)
            else {"kind": "categorical", "categories": spec, "missing": i in (1, 6, 13)}
            for i, (name, spec) in enumerate(zip(names, COLUMNS.values(), strict=True))
        },
    })  # fmt: skip
    provenance = Provenance(
        seed=20260101, split="keyed hash, seed 20260101",
        fingerprints=dict.fromkeys(("table", "train", "holdout"), "hmac-sha256:" + "9f" * 32),
        job_sha256="1c" * 32, schema_sha256="2d" * 32, files_sha256={"synthetic/mst.csv": "3e" * 32},
        versions={"understudy": "0.1.0", "numpy": "2.2.1", "pandas": "2.3.0", "opendp": "0.13.0"},
    )  # fmt: skip
    return Evaluation(candidates=candidates, real=real, schema=schema, provenance=provenance)


def _real(spec: list[str] | int, rng: np.random.Generator) -> np.ndarray:
    n = spec if isinstance(spec, int) else len(spec)
    raw = rng.dirichlet(np.full(n, 8.0)) if isinstance(spec, int) else np.sort(rng.dirichlet(np.full(n, 0.9)))[::-1]
    missing = 0.056 if n == 14 else 0.0
    return np.concatenate([raw * (1 - missing), [0.0, missing]])


def _candidate(name: str, names: list[str], shares: list[np.ndarray], rng: np.random.Generator) -> Candidate:
    quality = QUALITY[name]
    columns = [
        _overlay(c, spec, s, quality["tv1"], rng) for c, spec, s in zip(names, COLUMNS.values(), shares, strict=True)
    ]
    private = name == "mst"
    return Candidate(
        name=name,
        estimates=tuple(_estimates(quality, columns, names, private)),
        failures=tuple(_failures(private)),
        figures={
            "columns": columns,
            "associations": _associations(names, quality["share"], rng),
            "pairs": _pairs(names, quality, rng),
            "utility": _utility(names[-1], quality["tstr"]),
            "membership": _membership(quality["auc"]),
            "looks": _looks(names, rng),
            "distance": _distance(quality["excess"]),
            "singling_out": {"multivariate": _tried(0.31, quality["excess"])},
            "linkability": [
                {"columns": names[:7], "others": names[7:], **_tried(0.02, quality["excess"])},
                {"columns": names[:2], "others": names[2:], **_tried(0.01, 0.0)},
            ],
            "inference": _inference(names, quality["excess"]),
            "reconstruction": [{"column": names[8], **_tried(0.85, quality["excess"])}],
        },
        statement=_statement() if private else None,
        generator=GeneratorRecord(name, {"epsilon": 1.0, "delta": 1e-6} if private else {"epochs": 60}),
        seconds={"fit": 9.8, "sample": 0.7, "fidelity.columns": 0.4, "privacy.membership": 11.2},
    )


def _overlay(
    column: str, spec: list[str] | int, train: np.ndarray, tv1: float, rng: np.random.Generator
) -> dict[str, Any]:
    move = rng.normal(size=len(train)) * (train + 0.02) * (train > 0)
    move -= (train > 0) * move.sum() / (train > 0).sum()
    synthetic = np.clip(train + move * tv1 * rng.uniform(0.3, 2.2) / max(np.abs(move).sum() / 2, 1e-9), 0, None)
    synthetic = synthetic / synthetic.sum()
    numeric = isinstance(spec, int)
    edges = [round(17 + 73 * i / len(train[:-2]), 2) for i in range(len(train) - 1)] if numeric else None
    labels = [f"{a:g} to {b:g}" for a, b in itertools.pairwise(edges)] if edges else list(spec)  # type: ignore[call-overload]
    tvd = float(np.abs(synthetic - train).sum() / 2)
    return {
        "column": column, "kind": "integer" if numeric else "categorical", "labels": [*labels, "other", "missing"],
        "edges": edges, "train": train.tolist(), "synthetic": synthetic.tolist(), "tvd": tvd,
    }  # fmt: skip


def _estimates(
    q: dict[str, float], columns: list[dict[str, Any]], names: list[str], private: bool
) -> Iterator[Estimate]:
    def one(measure: str, value: float, half: float, *marks: float | None, n: int = 4884, **more: Any) -> Estimate:
        reference, floor = (*marks, None, None)[:2]
        low, high = (value - half, value + half) if half >= 0 else (None, None)
        more = {"direction": "lower", **more}
        return Estimate(measure=measure, value=value, low=low, high=high, n=n, reference=reference, floor=floor, **more)

    yield Estimate("validity.rows", 1.0, 39074, "higher", low=0.9999, high=1.0, reference=1.0)
    yield one("columns.tvd.excess", q["tv1"] - 0.011, 0.004, 0.0, 0.0)
    worst = max(columns, key=lambda c: c["tvd"])
    yield one("columns.tvd.excess.worst", worst["tvd"], 0.006, 0.0, 0.0, note=f"The worst is {worst['column']!r}.")
    yield one("columns.ks.excess.worst", worst["tvd"] / 4, 0.006, 0.0, 0.0)
    yield one("columns.tail.excess.worst", q["tv1"] / 8, 0.003, 0.0, 0.0)
    yield one("columns.categories.kept.worst", 0.9, 0.06, 0.95, 1.0, direction="higher")
    yield one("joint.repeats.excess", 0.0, 0.002, 0.0, 0.0)
    yield one("triples.tvd.excess.worst", q["share"] * 0.05, 0.02, 0.0, 0.2)
    yield one("columns.spikes.kept.worst", 0.93, 0.03, 1.0, 1.0, direction="higher")
    yield one("columns.lattice.kept.worst", 0.9, 0.04, 1.0, 1.0, direction="higher")
    for column in columns:
        yield one("columns.tvd", column["tvd"], 0.004, 0.011, 0.011, subject=(column["column"],))
    yield one("pairs.tvd.excess", q["tv2"] - 0.031, 0.004, 0.0, 0.053)
    yield one("pairs.tvd.floor_excess", 0.053 * (q["share"] - 1.0), 0.004, -0.053, 0.0)
    yield one("relations.lost.worst", 0.0002, 0.0008, 0.0, 0.81, note="The worst is 'a' is at most 'b'.")
    yield one("pairs.dependence.floor_share", q["share"] ** 3, 0.0202, 0.0, 1.0, n=39074)
    yield one("pairs.dependence.floor_share.worst", min(q["share"] + 0.1, 1.0), 0.06, 0.05, 1.0, n=39074)
    yield one("pairs.dependence.within.worst", min(q["share"], 1.0), 0.1, 0.1, 1.0)
    yield one("utility.tstr.linear", q["tstr"] - 0.02, 0.011, 0.903, 0.498, direction="higher", note="roc_auc")
    yield one("utility.tstr.boosting", q["tstr"], 0.01, 0.921, 0.502, direction="higher", note="roc_auc")
    yield one("utility.gap.boosting.without", 0.921 - q["tstr"], 0.009, 0.003, 0.419)
    yield one("privacy.personal", 0.0, 0.0, 0.0, 1.0)
    yield one("privacy.copies", 0.02 + q["excess"], 0.003, 0.02, 0.011)
    yield one("privacy.copies.excess", q["excess"], 0.004, 0.0)
    people = max(q["excess"] - 0.004, 0.0)
    for part, half in (("people", 0.003), ("values", 0.02), ("parts", 0.03), ("near", 0.01)):
        yield Estimate(
            f"privacy.copies.{part}", people, 4884, "lower", low=0.0, high=people + half, reference=0.0,
            note=f"{round(4884 * people):,} people",
        )  # fmt: skip
    note = "share of held-out people whose row stands in the table"
    yield Estimate("privacy.copies.holdout", 0.0, 1628, "lower", low=0.0, high=0.003, reference=0.0, note=note)
    yield one("privacy.multiset", q["multiset"], 0.02, 1.0, 1.02, direction="higher")
    yield one("privacy.copies.unique.excess", q["excess"] / 2, 0.004, 0.0)
    yield one("privacy.dcr.median", 0.041 + q["excess"], 0.001, 0.042, direction="none")
    yield one("privacy.nndr.median", 0.81, 0.004, 0.80, direction="none")
    yield one("privacy.membership.auc", q["auc"], 0.011, 0.5, detectable=0.516)
    yield one("privacy.membership.tpr_at_0.01", 0.010 + max(0, q["auc"] - 0.505), 0.004, 0.01)
    if private:
        yield one("privacy.membership.tpr_at_0.001", 0.0012, 0.0011, 0.001)
    worst_split, worst_column = (_tried(share, q["excess"])["advantage"] for share in (0.02, 0.3))
    yield one("privacy.singling_out.multivariate", q["excess"], 0.005, 0.0, detectable=0.02)
    yield one("privacy.reconstruction", -0.0003, 0.012, 0.0)
    for measure, (value, low, high) in (("linkability", worst_split), ("inference", worst_column)):
        yield Estimate(f"privacy.{measure}", value, 4000, "lower", low=low, high=high, reference=0.0, detectable=0.03)


def _failures(private: bool) -> Iterator[Failure]:
    if not private:
        yield Failure("privacy.membership.tpr_at_0.001", "timed out", "the time limit of 20 s was reached")
        yield Failure("columns.chi2", "failed", "ValueError in the measure")


def _associations(names: list[str], share: float, rng: np.random.Generator) -> dict[str, Any]:
    d = len(names)
    loadings = np.random.default_rng(7).normal(size=(d, 3))
    real = np.corrcoef(loadings)
    noise = rng.normal(scale=0.06, size=(d, d))
    synthetic = np.clip(real * (1 - 0.5 * min(share, 1.0)) + (noise + noise.T) / 2, -1, 1)
    kinds = [[None if i == j else "pearson" for j in range(d)] for i in range(d)]
    clean = [[None if i == j else float(v) for j, v in enumerate(row)] for i, row in enumerate(real)]
    other = [[None if i == j else float(v) for j, v in enumerate(row)] for i, row in enumerate(synthetic)]
    return {"columns": names, "train": clean, "synthetic": other, "kinds": kinds}


def _pairs(names: list[str], quality: dict[str, float], rng: np.random.Generator) -> dict[str, Any]:
    d = len(names)
    tvd = np.abs(rng.normal(quality["tv2"], 0.02, size=(d, d)))
    worst = [
        {
            "columns": [names[i], names[(i + 4) % d]],
            "tvd": quality["tv2"] * (2.4 - i / 8),
            "reference": 0.05,
            "floor": 0.16,
            "cells": None if i else _cells(rng),
        }
        for i in range(10)
    ]
    return {"columns": names, "tvd": tvd.tolist(), "worst": worst}


def _cells(rng: np.random.Generator) -> dict[str, Any]:
    train, synthetic = (rng.dirichlet(np.ones(12)).reshape(3, 4).tolist() for _ in range(2))
    return {"labels": [["1", "2", "missing"], ["a", "b", "other", "missing"]], "train": train, "synthetic": synthetic}


def _looks(names: list[str], rng: np.random.Generator) -> dict[str, Any]:
    real, synthetic = rng.normal(size=(2, 50, 2)).round(3).tolist()
    columns = [
        {"column": name, "masked": not i, "real": ["real" if i else "masked"] * 2, "synthetic": ["7", None]}
        for i, name in enumerate(names[:3])
    ]
    drawn = {"variance": [0.2, 0.1], "real": real, "synthetic": synthetic, "near": [3, 7], "near_holdout": 0.01}
    return {"rows": {"columns": columns}, "map": drawn}


def _utility(target: str, tstr: float) -> dict[str, Any]:
    models = [("linear", tstr - 0.02, 0.903, 0.901, 0.498), ("boosting", tstr, 0.921, 0.918, 0.502)]
    return {
        "target": target, "task": "classification", "metric": "roc_auc",
        "models": [
            {
                "model": m, "tstr": s, "trtr": r, "fresh": f, "floor": z,
                "gap": r - s, "low": r - s - 0.01, "high": r - s + 0.01,
            }
            for m, s, r, f, z in models
        ],
    }  # fmt: skip


def _tried(control: float, advantage: float) -> dict[str, Any]:
    """An attack that succeeds on so many others, and on so many more members."""
    attack = control + advantage
    rates = {"attack": [attack, attack - 0.01, attack + 0.01], "control": [control, control - 0.01, control + 0.01]}
    span = [advantage, advantage - 0.008, advantage + 0.008]
    return {**rates, "baseline": control, "n_attack": 2000, "n_control": 2000, "advantage": span}


def _inference(names: list[str], excess: float) -> dict[str, Any]:
    """The first column stands out."""
    beside = {"majority": 0.2, "quasi_identifiers": None, "rare": None}
    columns = [{"column": name, **_tried(0.3 + i / 50, excess / (i + 1)), **beside} for i, name in enumerate(names)]
    return {"columns": columns}


def _membership(auc: float) -> dict[str, Any]:
    fpr = np.geomspace(1 / 4884, 1, 200)
    tpr = fpr ** ((1 - auc) / auc)
    return {
        "fpr": fpr.tolist(), "tpr": tpr.tolist(), "auc": auc,
        "n_members": 4884, "n_controls": 4884, "floor_fpr": 1 / 4884, "chosen": ["nearest", "nearest"],
        "attacks": [{"name": "nearest", "auc": [auc, auc - 0.01, auc + 0.01], "tpr_at_0.01": None}],
    }  # fmt: skip


def _distance(excess: float) -> dict[str, Any]:
    quantiles = np.linspace(0, 1, 41)
    holdout = 0.12 * quantiles**1.4
    synthetic = holdout * (1 - 6 * excess)
    return {
        "quantiles": quantiles.tolist(),
        "dcr": {"synthetic": synthetic.tolist(), "holdout": holdout.tolist()},
        "nndr": {"synthetic": (quantiles**0.3).tolist(), "holdout": (quantiles**0.32).tolist()},
    }


def _statement() -> PrivacyStatement:
    return PrivacyStatement.from_dict({
        "epsilon": 0.9987, "delta": 1e-6, "unit": "row", "n_units": 39074, "accountant": "PLD (dp-accounting)",
        "epsilon_rdp": 1.0712,
        "events": [
            {"what": "one-way histograms of the columns", "mechanism": "Gaussian", "count": 15, "rho": 0.0075,
             "noise": {"sigma": 31.622776601683793, "sensitivity": 1, "whole": True}, "delta": 0.0},
            {"what": "values of home_town", "mechanism": "stability histogram", "count": 1, "rho": 0.005,
             "noise": {"sigma": 10.0, "threshold": 54, "sensitivity": 1}, "delta": 7.515293750786311e-08},
            {"what": "choices of column pairs", "mechanism": "exponential", "count": 14, "rho": 0.0063,
             "noise": {"epsilon": 0.06}, "delta": 0.0},
            {"what": "two-way marginals of the tree", "mechanism": "Gaussian", "count": 14, "rho": 0.007,
             "noise": {"sigma": 31.622776601683793, "sensitivity": 1, "whole": True}, "delta": 0.0},
        ],
        "max_rows_per_unit": 1, "relation": "zero-out", "versions": {"opendp": "0.13.0", "dp_accounting": "0.5.0"},
        "ledger": None, "caveats": ["The schema's bounds and categories were declared public by its author."],
        "private": True, "trust": "curator",
    })  # fmt: skip


def shipped_verdicts(evaluation: Evaluation, policy: str = "internal") -> tuple[Verdict, ...]:
    """The verdict of a shipped policy on every candidate."""
    path = Path(__file__).parents[2] / "evaluate" / "policies" / f"{policy}.toml"
    return tuple(judge_candidate(candidate, load_policy(path)) for candidate in evaluation.candidates)


@pytest.fixture(scope="session")
def evaluation() -> Evaluation:
    return sample_evaluation()


@pytest.fixture(scope="session")
def audited(evaluation: Evaluation) -> Evaluation:
    """The same with the one claim audited, so that it can pass."""
    result = conclude((0.9987, 1e-6), (430, 440), 960, 0.99, ran_on="a public stand-in")
    first, *others = evaluation.candidates
    first = replace(first, audit=result, estimates=(*first.estimates, result.estimate))
    return replace(evaluation, candidates=(first, *others))


@pytest.fixture(scope="session")
def make_evaluation() -> Callable[..., Evaluation]:
    return sample_evaluation


@pytest.fixture(scope="session")
def verdicts_of() -> Callable[..., tuple[Verdict, ...]]:
    return shipped_verdicts
