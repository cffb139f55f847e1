"""`anonymeter`'s attacks on one folder's tables: ``python with_anonymeter.py FOLDER``.

``cost`` times all three attacks as they come, every column a secret in turn. ``risks`` gives their counts and risks:
singling out by its own predicates, and by those that ``predicates.json`` holds; linkability and inference on the
targets that ``attacked.csv`` and ``spared.csv`` hold. Polars and its own draws are seeded as far as they can be.
"""

import json
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator
from anonymeter.evaluators.singling_out_evaluator import _evaluate_queries, fit_correction_term
from evaluated import Three, measured, read_csv, read_task, read_three, write_result

MODES = ("univariate", "multivariate")
N_WARM = 50
"""Rows of a first run, so that what is compiled once is compiled before the clock runs."""


def main(folder: Path) -> None:
    """Do what the task says."""
    warnings.simplefilter("ignore")
    task, tables = read_task(folder), read_three(folder)
    np.random.seed(task["seed"])  # noqa: NPY002
    pl.set_random_seed(task["seed"])
    result = cost(tables, task) if task["do"] == "cost" else risks(folder, tables, task)
    write_result(folder, result, ["anonymeter", "numpy", "pandas", "polars", "numba"])


def cost(tables: Three, task: dict[str, Any]) -> dict[str, Any]:
    """What the three attacks cost."""
    few = Three(*(table.head(N_WARM) for table in (tables.train, tables.holdout, tables.synthetic)))
    every_attack(few, {**task, "n_attacks": 10, "max_attempts": 100})
    return measured(lambda: every_attack(tables, task))


def every_attack(tables: Three, task: dict[str, Any]) -> None:
    """All attacks that have no choice of the user's but the two halves of the columns."""
    for mode in MODES:
        singling_out(tables, task, mode)
    linkability(tables, task)
    for secret in tables.train.columns:
        inference(tables, task, secret)


def risks(folder: Path, tables: Three, task: dict[str, Any]) -> dict[str, Any]:
    """Counts and risks."""
    same = Three(read_csv(folder / "attacked.csv"), read_csv(folder / "spared.csv"), tables.synthetic)
    level = Three(tables.train.head(len(tables.holdout)), tables.holdout, tables.synthetic)
    attacks = {mode: partial(singling_out, tables, task, mode) for mode in MODES}
    attacks |= {f"{mode}, equal sizes": partial(singling_out, level, task, mode) for mode in MODES}
    attacks["linkability"] = partial(linkability, same, task)
    attacks |= {f"inference {secret}": partial(inference, same, task, secret) for secret in tables.train.columns}
    result = {name: told(attack) for name, attack in attacks.items()}
    return {"attacks": result, **same_predicates(folder, tables)}


def told(attack: Callable[[], Any]) -> dict[str, Any]:
    """What an evaluator says; its correction for the size of the control may find no answer."""
    try:
        evaluator = attack()
    except RuntimeError as error:
        return {"failure": str(error)}
    results, risk = evaluator.results(), evaluator.risk()
    return {
        "n_attacks": results.n_attacks_ori,
        "attack": float(results.n_success),
        "control": float(results.n_control),
        "baseline": float(results.n_baseline),
        "risk": [float(number) for number in (risk.value, *risk.ci)],
    }


def same_predicates(folder: Path, tables: Three) -> dict[str, Any]:
    """How many different rows of train, holdout and synthetic each predicate of the folder holds for.

    Beside it, the factor by which anonymeter multiplies the holdout's successes to bring them to the size of train.
    """
    train, control, _ = frames = [pl.DataFrame(table).unique(maintain_order=True) for table in vars(tables).values()]
    counts, factors = {}, {}
    for mode, predicates in json.loads((folder / "predicates.json").read_text()).items():
        queries = [pl.all_horizontal([condition(*part) for part in predicate]) for predicate in predicates]
        counts[mode] = [[int(count or 0) for count in _evaluate_queries(frame, queries)] for frame in frames]
        brought = fit_correction_term(control, queries)
        factors[mode] = float(brought(len(train)) / brought(len(control)))
    return {"predicates": counts, "factors": factors}


def condition(column: str, operator: str, value: Any) -> pl.Expr:
    """One condition as anonymeter writes it."""
    cell = pl.col(column)
    return {
        "null": lambda: cell.is_null(), "eq": lambda: cell == value,
        "ge": lambda: cell >= value, "le": lambda: cell <= value,
    }[operator]()  # fmt: skip


def singling_out(tables: Three, task: dict[str, Any], mode: str) -> Any:
    """Its singling-out attack."""
    evaluator = SinglingOutEvaluator(
        ori=tables.train,
        syn=tables.synthetic,
        control=tables.holdout,
        n_attacks=task["n_attacks"],
        n_cols=task["n_columns"],
        max_attempts=task.get("max_attempts", 10_000_000),
        seed=task["seed"],
    )
    return evaluator.evaluate(mode=mode)


def linkability(tables: Three, task: dict[str, Any]) -> Any:
    """Its linkability attack."""
    evaluator = LinkabilityEvaluator(
        ori=tables.train,
        syn=tables.synthetic,
        control=tables.holdout,
        n_attacks=task["n_attacks"],
        aux_cols=tuple(task["halves"]),
    )
    return evaluator.evaluate(n_jobs=task["threads"])


def inference(tables: Three, task: dict[str, Any], secret: str) -> Any:
    """Its inference attack, with all other columns known."""
    evaluator = InferenceEvaluator(
        ori=tables.train,
        syn=tables.synthetic,
        control=tables.holdout,
        aux_cols=[name for name in tables.train.columns if name != secret],
        secret=secret,
        regression=pd.api.types.is_numeric_dtype(tables.train[secret]),
        n_attacks=task["n_attacks"],
    )
    return evaluator.evaluate(n_jobs=task["threads"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
