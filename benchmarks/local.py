"""Local privacy: Adult from reports beside a curator's noise, and ten million simulated respondents.

``python -m benchmarks.local adult.csv --out local.json`` measures whatever the file does not hold; without a table
``python -m benchmarks.local --out local.json`` only draws the tables. ``--respondents`` and ``--repeats`` make the
simulation smaller. ``--peer PYTHON`` names the interpreter of an environment with ``multi-freq-ldpy``, whose estimators
answer the questions of one column, too. Every report is drawn by the system, so that no two runs are alike.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import synth
from benchmarks.adult_table import Adult, read_adult
from benchmarks.runs import keep, read_kept
from benchmarks.scoring import Scorer
from synth.schema import build_schema
from understudy.extras.local.oracles import DirectEncoding, UnaryEncoding
from understudy.extras.local.survey import ReportCounts, Survey

EPSILONS = (1.0, 4.0, 8.0)
SEEDS = 3
SETTINGS: dict[str, dict[str, Any]] = {
    "local": {}, "local, columns alone": {"pairs": "none"}, "local, all pairs": {"pairs": "all"},
    "independent": {}, "mst": {},
}  # fmt: skip
COLUMNS: dict[str, Any] = {
    "age": {"kind": "integer", "bounds": [0, 79]},
    "job": {"kind": "categorical", "categories": [f"job {i}" for i in range(10)]},
    "sex": {"kind": "boolean"},
}
PEER = """
import json, sys
import numpy as np
from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_MI, GRR_Client
from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client
asked = json.load(sys.stdin)
cells, k, epsilon = np.array(asked["cells"]), asked["k"], asked["epsilon"]
found = {"generalized randomized response": [], "optimized unary encoding": []}
for _ in range(asked["repeats"]):
    direct = [GRR_Client(cell, k, epsilon) for cell in cells]
    found["generalized randomized response"].append(GRR_Aggregator_MI(direct, k, epsilon).tolist())
    unary = [UE_Client(cell, k, epsilon, True) for cell in cells]
    found["optimized unary encoding"].append(UE_Aggregator_MI(unary, epsilon, True).tolist())
print(json.dumps(found))
"""


def main(arguments: Sequence[str]) -> None:
    options = _options(arguments)
    runs: list[dict[str, Any]] = read_kept(options.out, [])
    known = {_key(run) for run in runs}
    for task, do in _tasks(options):
        if _key(task) not in known:
            runs.append({**task, **do()})
            print(json.dumps(runs[-1]), file=sys.stderr)
            keep(options.out, runs)
    print(_drawn(runs))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.local", description=__doc__)
    parser.add_argument("table", nargs="?", type=Path, help="Adult; none only draws what --out holds")
    parser.add_argument("--respondents", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5, help="of the simulation at each epsilon")
    parser.add_argument("--peer", type=Path, help="Python of an environment with multi-freq-ldpy")
    parser.add_argument("--out", type=Path, required=True, help="JSON file of the results, read and continued")
    return parser.parse_args(arguments)


def _key(run: dict[str, Any]) -> tuple[Any, ...]:
    return run["of"], run["name"], run["epsilon"], run["seed"]


def _tasks(options: argparse.Namespace) -> Iterator[tuple[dict[str, Any], Any]]:
    if options.table is None:
        return
    adult = read_adult(options.table)
    scorer = Scorer(adult.train, adult.test, adult.target)
    for epsilon in EPSILONS:
        for seed in range(SEEDS):
            for name in SETTINGS:
                task = {"of": "adult", "name": name, "epsilon": epsilon, "seed": seed}
                yield task, lambda task=task: _fitted(adult, scorer, task)
        task = {"of": "simulation", "name": f"{options.respondents:,} respondents", "epsilon": epsilon, "seed": 0}
        yield task, lambda epsilon=epsilon: simulated(options.respondents, epsilon, options.repeats)
        if options.peer is not None:
            task = {"of": "peer", "name": "multi-freq-ldpy", "epsilon": epsilon, "seed": 0}
            yield task, lambda epsilon=epsilon: _peer(options.peer, epsilon)


def _fitted(adult: Adult, scorer: Scorer, task: dict[str, Any]) -> dict[str, Any]:
    started, name = time.perf_counter(), task["name"].partition(",")[0]
    model = synth.fit(adult.train, adult.binned, name, epsilon=task["epsilon"], **SETTINGS[task["name"]])
    seconds = time.perf_counter() - started
    drawn = model.sample(len(adult.train), seed=task["seed"])
    return {"tv1": scorer.tv(drawn, 1), "tv2": scorer.tv(drawn, 2), "seconds": seconds}


def simulated(n: int, epsilon: float, repeats: int) -> dict[str, Any]:
    """A survey of three columns and all of their pairs, asked again and again.

    Returns:
        ratio: mean squared error of all shares over the predicted variance.
        ratio_error: its standard error, over repeats of whole surveys.
        covered: share of the 95% intervals that hold the share of all respondents.
        covered_error: its standard error, likewise.
        seconds: of one survey.
    """
    schema = build_schema({"status": "declared", "n_units": n, "columns": COLUMNS})
    survey = Survey.of(schema, epsilon, pairs="all")
    codes = _population(survey, n)
    truths = [
        np.bincount(question.cells(codes), minlength=question.oracle.n_cells) / n for question in survey.questions
    ]
    ratios, covered, started = [], [], time.perf_counter()
    for _ in range(repeats):
        known = _asked(survey, codes, n)
        squares, inside = [], []
        for position, true in enumerate(truths):
            (low, high), (a, b, c) = known.intervals(position), known.variance(position)
            present = true > 0
            variance = a + b * true + c * true * (1 - true)
            squares.append(((known.shares(position) - true) ** 2 / variance)[present])
            inside.append(((low <= true) & (true <= high))[present])
        ratios.append(float(np.concatenate(squares).mean()))
        covered.append(float(np.concatenate(inside).mean()))
    seconds = (time.perf_counter() - started) / repeats
    return {
        "ratio": float(np.mean(ratios)), "ratio_error": float(np.std(ratios, ddof=1) / repeats**0.5),
        "covered": float(np.mean(covered)), "covered_error": float(np.std(covered, ddof=1) / repeats**0.5),
        "seconds": seconds, "answers_each": survey.n_answers, "repeats": repeats,
    }  # fmt: skip


def _population(survey: Survey, n: int) -> dict[str, np.ndarray]:
    """Codes of people whose job goes along with their age."""
    rng = np.random.default_rng(0)
    sizes = survey.discretizer.sizes
    age = rng.binomial(sizes["age"] - 3, 0.4, n).astype(np.int32)
    job = np.minimum(age // 2 + rng.integers(0, 4, n), sizes["job"] - 3).astype(np.int32)
    return {"age": age, "job": job, "sex": (rng.random(n) < 0.4).astype(np.int32)}


def _asked(survey: Survey, codes: dict[str, np.ndarray], n: int) -> ReportCounts:
    answers = list(survey.answers(codes, np.random.default_rng().permutation(n)))
    pairs = zip(survey.questions, answers, strict=True)
    supports = tuple(question.oracle.support(cells) for question, cells in pairs)
    return ReportCounts(survey, supports, tuple(len(cells) for cells in answers), n)


def _peer(python: Path, epsilon: float) -> dict[str, Any]:
    """Root mean squared error of shares by both mechanisms, ours and the peer's, on the same answers."""
    rng, k, n, repeats = np.random.default_rng(0), 16, 20_000, 20
    cells = np.minimum(rng.geometric(0.3, n) - 1, k - 1)
    true = np.bincount(cells, minlength=k) / n
    asked = {"cells": cells.tolist(), "k": k, "epsilon": epsilon, "repeats": repeats}
    ran = subprocess.run([str(python), "-c", PEER], input=json.dumps(asked), capture_output=True, text=True, check=True)
    frequencies: dict[str, Any] = {}
    for oracle in (DirectEncoding(k, epsilon), UnaryEncoding(k, epsilon)):
        ours = np.array([oracle.counts(oracle.support(cells), n) / n for _ in range(repeats)])
        theirs = np.array(json.loads(ran.stdout)[oracle.mechanism])
        frequencies[oracle.mechanism] = {
            "predicted": float(np.sqrt(oracle.variance(true, n).mean())),
            "ours": float(np.sqrt(((ours - true) ** 2).mean())),
            "theirs": float(np.sqrt(((theirs - true) ** 2).mean())),
        }
    return frequencies


def _drawn(results: Sequence[dict[str, Any]]) -> str:
    """The tables of the manual."""
    lines = ["| epsilon | generator | columns | pairs | seconds |", "| ---: | --- | ---: | ---: | ---: |"]
    frame = pd.DataFrame([run for run in results if run["of"] == "adult"])
    for epsilon in EPSILONS:
        for name in SETTINGS:
            runs = frame[(frame["epsilon"] == epsilon) & (frame["name"] == name)] if len(frame) else frame
            if len(runs):
                tv1, tv2, seconds = (runs[column].mean() for column in ("tv1", "tv2", "seconds"))
                lines.append(f"| {epsilon:g} | {name} | {tv1:.3f} | {tv2:.3f} | {seconds:.1f} |")
    lines += [
        "", "| epsilon | squared error over predicted variance | intervals that cover | seconds |",
        "| ---: | ---: | ---: | ---: |",
    ]  # fmt: skip
    lines += [
        f"| {run['epsilon']:g} | {run['ratio']:.3f} ± {run['ratio_error']:.3f} | {run['covered']:.3f} ± "
        f"{run['covered_error']:.3f} | {run['seconds']:.0f} |"
        for run in results
        if run["of"] == "simulation"
    ]
    for run in results:
        if run["of"] == "peer":
            for mechanism in (DirectEncoding.mechanism, UnaryEncoding.mechanism):
                errors = run[mechanism]
                lines.append(
                    f"\n{mechanism}, epsilon {run['epsilon']:g}: root mean squared error {errors['ours']:.4f}, "
                    f"predicted {errors['predicted']:.4f}, {run['name']} {errors['theirs']:.4f}"
                )
    return "\n".join(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
