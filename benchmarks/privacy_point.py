"""One step of the privacy benchmark in a process of its own: ``python -m benchmarks.privacy_point STEP TABLE FOLDER``.

What to do stands in the folder's ``task.json``; what came of it is printed as JSON.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.adult_table import Adult, read_adult
from benchmarks.anonymeter_neighbors import guessed, links
from benchmarks.anonymeter_predicates import Different, Predicate, control_successes, multivariate, univariate
from benchmarks.evaluation import PRIVACY, import_late
from benchmarks.peers.evaluated import Three, measured, read_csv, read_task, read_three
from benchmarks.privacy_tables import TABLES, resampled, write_three
from synth.schema import build_schema

EXPERIMENTS = ("privacy.singling_out", "privacy.linkability", "privacy.inference")
"""Measures of ours that anonymeter has, too."""
RATES = ("attack", "control", "baseline", "n_attack", "n_control", "advantage")


def main(arguments: Sequence[str]) -> None:
    step, table, folder = arguments
    print(json.dumps(STEPS[step](read_adult(Path(table)), Path(folder))))


def _tables(adult: Adult, folder: Path) -> dict[str, Any]:
    """Write the three tables, the halves of the columns, and the targets and predicates that both sides take."""
    columns = list(adult.train)
    task = {**read_task(folder), "halves": [columns[::2], columns[1::2]]}
    (folder / "task.json").write_text(json.dumps(task))
    write_three(folder, Three(adult.train, adult.test, TABLES[task["table"]](adult)))
    tables, rng = read_three(folder), np.random.default_rng(task["seed"])
    for name, frame in (("attacked", tables.train), ("spared", tables.holdout)):
        rows = rng.choice(len(frame), size=task["n_attacks"], replace=False)
        frame.iloc[rows].to_csv(folder / f"{name}.csv", index=False)
    synthetic = Different(tables.synthetic)
    predicates = {
        "univariate": univariate(synthetic, task["n_attacks"], rng),
        "multivariate": multivariate(synthetic, task["n_attacks"], task["n_columns"], rng),
    }
    (folder / "predicates.json").write_text(json.dumps(predicates))
    return {mode: len(evaluations) for mode, evaluations in predicates.items()}


def _rewritten(adult: Adult, folder: Path) -> dict[str, Any]:
    """Counts of anonymeter's attacks as we read its definitions."""
    task, tables = read_task(folder), read_three(folder)
    predicates: dict[str, list[Predicate]] = json.loads((folder / "predicates.json").read_text())
    sides = [Different(frame) for frame in vars(tables).values()]
    level = Different(tables.train.head(len(tables.holdout)))
    attacks: dict[str, Any] = {}
    for suffix, train in (("", sides[0]), (", equal sizes", level)):
        for mode, evaluations in predicates.items():
            attacks[mode + suffix] = _singled_out(train, sides[1], evaluations, task)
    targets = [read_csv(folder / f"{name}.csv") for name in ("attacked", "spared")]
    linked = [links(side, tables.synthetic, task["halves"]) for side in targets]
    attacks["linkability"] = _beside(task["n_attacks"], linked)
    for secret in adult.train.columns:
        found_out = [guessed(side, tables.synthetic, secret) for side in targets]
        attacks[f"inference {secret}"] = _beside(task["n_attacks"], found_out)
    counts = {mode: [side.counts(evaluations).tolist() for side in sides] for mode, evaluations in predicates.items()}
    return {"attacks": attacks, "predicates": counts}


def _singled_out(
    train: Different, control: Different, predicates: Sequence[Predicate], task: Mapping[str, Any]
) -> dict[str, float]:
    rng = np.random.default_rng(task["seed"])
    counted = [int((side.counts(predicates) == 1).sum()) for side in (train, control)]
    brought = control_successes(control, len(train), predicates, rng)
    return {"n_attacks": task["n_attacks"], "attack": counted[0], "control": brought, "control_counted": counted[1]}


def _beside(n: int, counts: Sequence[tuple[int, float]]) -> dict[str, float]:
    (attack, attack_drawn), (control, control_drawn) = counts
    drawn = {"attack_drawn": attack_drawn, "control_drawn": control_drawn}
    return {"n_attacks": n, "attack": attack, "control": control, **drawn}


def _ours(adult: Adult, folder: Path) -> dict[str, Any]:
    """What all measures of privacy cost."""
    return _cost(adult, read_three(folder))


def _large(adult: Adult, folder: Path) -> dict[str, Any]:
    """The same on many rows."""
    return _cost(adult, resampled(adult, read_task(folder)["rows"]))


def _cost(adult: Adult, tables: Three) -> dict[str, Any]:
    import evaluate
    from evaluate.metrics import MODULES

    chosen = [name for name in MODULES if name.startswith(PRIVACY)]
    import_late(chosen)
    evaluations: list[evaluate.Evaluation] = []
    real, asked = (tables.train, tables.synthetic), {"holdout": tables.holdout, "measures": chosen}
    cost = measured(lambda: evaluations.append(evaluate.evaluate(*real, schema=adult.plain, **asked)))
    (candidate,) = evaluations[0].candidates
    failed = [f"{failure.measure}: {failure.message}" for failure in candidate.failures if failure.reason == "failed"]
    return {**cost, "measures_s": dict(candidate.seconds), "failed": failed}


def _rates(adult: Adult, folder: Path) -> dict[str, Any]:
    """Rates of our own attacks, linkability between the same halves, and what they gain on members over controls."""
    import evaluate

    parties = read_task(folder)["halves"]
    schema = build_schema({**adult.plain.model_dump(), "parties": parties})
    tables = read_three(folder)
    (candidate,) = evaluate.evaluate(
        tables.train, tables.synthetic, holdout=tables.holdout, schema=schema, measures=EXPERIMENTS
    ).candidates
    figures = candidate.figures
    evaluations = {
        f"{mode}, equal sizes": {**figure, "advantage": _interval(candidate, f"privacy.singling_out.{mode}")}
        for mode, figure in figures["singling_out"].items()
    }
    sides = {frozenset(side) for side in parties}
    evaluations["linkability"] = next(
        each for each in figures["linkability"] if {frozenset(each["columns"]), frozenset(each["others"])} == sides
    )
    evaluations |= {f"inference {each['column']}": each for each in figures["inference"]["columns"]}
    return {
        name: {**{key: each[key] for key in RATES}, "attack": each["attack"][0], "control": each["control"][0]}
        for name, each in evaluations.items()
    }


def _interval(candidate: Any, measure: str) -> tuple[float, float, float]:
    evaluations = candidate.find(measure)
    return evaluations.value, evaluations.low, evaluations.high


STEPS: Mapping[str, Callable[[Adult, Path], dict[str, Any]]] = {
    "tables": _tables,
    "rewritten": _rewritten,
    "ours": _ours,
    "large": _large,
    "rates": _rates,
}

if __name__ == "__main__":
    main(sys.argv[1:])
