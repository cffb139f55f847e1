"""Evaluations of a sweep and of vendors, beside the sample of `conftest`."""

import json
import math
from dataclasses import replace
from datetime import date
from typing import Any

from pydantic import TypeAdapter

from evaluate.comparison import VendorRanking
from evaluate.result import Candidate, Estimate, Evaluation, Failure
from reports.model_card.card import CardFacts
from synth.schema import build_schema
from tests.evaluations import altered, facts, origin, stated
from tests.reports.conftest import sample_evaluation

EPSILONS = (0.3, 1.0, 3.0, 10.0, None)
FIGURE = "pairs.dependence.floor_share"
FACTS = CardFacts(date(2026, 1, 2), file="mst.csv", n_rows=39074, n_columns=15, holdout_share=0.2)
LEDGER = {
    "dataset": "adult", "unit": "row", "reservation": "5f" * 16, "entry": "e6" * 32, "epsilon": 1.29934,
    "spent_epsilon": 2.10012, "total_epsilon": 3.0, "total_delta": 1e-6,
}  # fmt: skip


def swept(*, n_seeds: int = 3, generators: tuple[str, ...] = ("mst",), releasable: bool = False) -> Evaluation:
    """A sweep of every generator over five epsilons; the score grows with epsilon and moves with the seed."""
    points, candidates = [], []
    for i, generator in enumerate(generators):
        for epsilon in EPSILONS:
            for seed in range(n_seeds):
                name = f"{generator}-{epsilon}-{seed}"
                points.append({"label": name, "generator": generator, "epsilon": epsilon, "seed": seed})
                candidates.append(_point(name, epsilon, seed, 0.02 * i))
    composed = {"epsilon": 21.47, "delta": 1e-6, "n_fits": 4 * n_seeds * len(generators)}
    sweep = {"releasable": releasable, "composed": composed, "points": points}
    schema = build_schema({"status": "declared", "columns": {"town": {"kind": "categorical", "categories": ["a"]}}})
    return Evaluation(tuple(candidates), facts(), schema, origin(sweep=sweep))


def _point(name: str, epsilon: float | None, seed: int, lift: float) -> Candidate:
    score = 0.7 + 0.05 * math.log10(epsilon or 100.0) + 0.01 * seed + lift
    estimates = (
        Estimate("utility.tstr.boosting", score, 900, "higher", low=score - 0.02, high=score + 0.02, reference=0.9,
                 floor=0.5, note="roc_auc"),
        Estimate("privacy.membership.auc", 0.5 + 0.001 * seed, 900, "lower", low=0.48, high=0.53, reference=0.5),
        Estimate("columns.tvd", 0.1, 900, "lower", subject=("=1+1", "town"), low=0.0, high=0.2),
    )  # fmt: skip
    failures = (Failure("columns.ks", "timed out", "it did not end"),)
    return Candidate(name, estimates, failures, statement=None if epsilon is None else stated(epsilon=epsilon * 0.999))


def vendor(name: str, standing: str, **changes: Any) -> dict[str, Any]:
    measure = "privacy.copies.unique.excess"
    estimate = {
        "measure": measure, "value": 0.05, "n": 800, "direction": "lower", "subject": [], "low": 0.04, "high": 0.06,
        "reference": 0.0, "floor": None, "note": "share of rows", "detectable": None,
    }  # fmt: skip
    evidence = {
        "name": measure, "measure": measure, "limit": 0.01, "fails_beyond": 0.01, "why": "Copied rows.", "subject": [],
        "reason": "It breaks the limit.", "estimate": estimate, "beyond_policy": True,
    }  # fmt: skip
    return {
        "name": name, "file": f"{name}.csv", "standing": standing, "reason": "", "rows_offered": 800,
        "rows_compared": 800, "missing_columns": [], "renamed_columns": [], "extra_columns": [],
        "n_extra_columns": 0, "formula_cells": 0, "claim": {}, "same_as": None,
        "evidence": [evidence] if standing == "disqualified" else [], "open": [], **changes,
    }  # fmt: skip


def ranking(name: str = "acme", **changes: Any) -> VendorRanking:
    """Two ranked vendors and three others, with other parts where they are named."""
    figure = {
        "figure": FIGURE, "direction": "lower", "values": {name: 0.01, "beta": 0.2}, "reference": 0.01, "floor": 0.02,
        "letters": {name: "a", "beta": "b"}, "absent": {},
    }  # fmt: skip
    pair = {
        "figure": FIGURE, "first": name, "second": "beta", "difference": -0.19, "low": -0.2, "high": -0.18,
        "p": 0.001, "p_adjusted": 0.001, "better": name, "reason": "",
    }  # fmt: skip
    order = {
        "rule": "A table is ahead.", "alpha": 0.05, "n_comparisons": 1, "figures": [figure], "comparisons": [pair],
        "order": [
            {"name": name, "place": 1, "behind": [], "letters": "a"},
            {"name": "beta", "place": 2, "behind": [name], "letters": "b"},
        ],
    }  # fmt: skip
    points = [
        {"name": name, "utility": 0.88, "exposure": 0.51, "standing": "ranked", "best": True},
        {"name": "cheat", "utility": 0.89, "exposure": 0.6, "standing": "disqualified", "best": False},
    ]
    points = [{**p, "utility_low": p["utility"] - 0.01, "utility_high": p["utility"] + 0.01} for p in points]
    content = {
        "terms": {"rows": 800, "rows_asked": None, "train_rows": 800, "seed": 0, "policy": "internal"},
        "vendors": [
            vendor("cheat", "disqualified"),
            vendor(name, "ranked", claim={"epsilon": 1.0, "says": "=1+1"}, open=["privacy.membership.auc"]),
            vendor("beta", "ranked", same_as=name, extra_columns=["x"], n_extra_columns=9),
            vendor("gamma", "incomplete", missing_columns=["income"], reason="it lacks columns"),
            vendor("delta", "not evaluated", rows_offered=None, rows_compared=None, reason="a table is a file"),
        ],
        "order": {**order, **changes.pop("order", {})},
        "picture": {
            "utility": "utility.tstr.boosting", "exposure": "privacy.membership.auc", "reference": 0.9, "floor": 0.5,
            "points": points, "absent": [],
        },
        **changes,
    }  # fmt: skip
    return TypeAdapter(VendorRanking).validate_json(json.dumps(content))


def compared() -> Evaluation:
    """The three tables of the sample as vendors: one ranked, one disqualified, one that lacks columns."""
    sample = sample_evaluation()
    first, second, third = (candidate.name for candidate in sample.candidates)
    vendors = [
        vendor(first, "ranked", claim={"epsilon": 1.0, "says": "word " * 60}), vendor(second, "disqualified"),
        vendor(third, "incomplete", missing_columns=["income"], reason="it lacks columns"),
        vendor("delta", "not evaluated", rows_offered=None, rows_compared=None, reason="a table is a file"),
    ]  # fmt: skip
    figure = {
        "figure": FIGURE, "direction": "lower", "values": {first: 0.021}, "reference": 0.01, "floor": 0.02,
        "letters": {first: "a"}, "absent": {},
    }  # fmt: skip
    order = {"order": [{"name": first, "place": 1, "behind": [], "letters": "a"}], "figures": [figure]}
    terms = ranking(first, vendors=vendors, order=order)
    return replace(sample, ranking=terms, provenance=altered(sample.provenance, {"split": None}))
