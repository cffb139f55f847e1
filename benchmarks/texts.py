"""Free text with secrets, learned with epsilon and without: leaks and utility; speed and memory of training.

``python -m benchmarks.texts --out texts.json`` measures whatever the file does not hold, some minutes a fit, and draws
the tables; ``--seeds 0`` only draws them. Every fit is written as soon as it is done.

Public texts "of the same kind" are complaints of other people without secrets, from the templates of the private ones:
no real public text comes as near. Those "of another kind" are notices to visitors of a town. Verdicts are those of the
policy `internal` with its rules on texts alone. Membership by the model's loss is no rule of it.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.runs import keep, read_kept
from benchmarks.text_fits import LANDMARKS, PUBLIC, Case, Sizes, fitted, landmark, median, pairs_off
from benchmarks.text_training import CASES

PARTS = ("training", "fits", "pairs")
"""Of the file of results."""
EPSILONS = (None, 8.0, 1.0)
BEST, MORE_STEPS = "of the same kind", 300
"""Public texts, and steps, of fits with epsilon that take longer; of one seed."""
MORE_ROWS = 8_000
"""Of larger tables."""
THEMES, OF_THEMES = 32, "aim"
"""Themes of public texts, and the generator of rows that counts them."""
COLUMNS = {
    "secrets": "secrets of 40", "exposure, single": "exposure", "texts.words.excess": "words",
    "texts.order.floor_share": "order", "texts.agreement.floor_share": "agreement", "utility.texts.gap.worst": "loss",
}  # fmt: skip
"""Numbers that are drawn, by name; the file has more."""
WARNED = ("utility.", "texts.lengths.")
"""Numbers on which no verdict rests."""


def main(arguments: Sequence[str]) -> None:
    """Measure what is not there yet, keep it, and draw it."""
    sizes = Sizes()
    parser = argparse.ArgumentParser("python -m benchmarks.texts", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="of tables and fits")
    parser.add_argument("--epochs", type=int, default=sizes.epochs, help="without epsilon")
    parser.add_argument("--steps", type=int, default=sizes.steps, help="with epsilon")
    parser.add_argument("--rows", type=int, default=sizes.rows)
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--out", type=Path, required=True, help="JSON file of the results, read and continued")
    options = parser.parse_args(arguments)
    content: dict[str, Any] = read_kept(options.out, {})
    sizes = Sizes(options.rows, options.epochs, options.steps)
    if options.seeds:
        content.setdefault(
            "about", {"cores": os.cpu_count(), "python": platform.python_version(), "sizes": vars(sizes)}
        )
    for part, name, measure in _tasks(options.seeds, sizes):
        runs = content.setdefault(part, {})
        if part in options.parts and name not in runs:
            runs[name] = measure()
            keep(options.out, content)
            print(name, json.dumps(runs[name]), file=sys.stderr, flush=True)
    drawn = [draw(content.get(part, {})) for part, draw in zip(PARTS, (_training, _fits, _pairs), strict=True)]
    print("\n\n".join("\n".join(lines) for lines in drawn))


def _tasks(seeds: int, sizes: Sizes) -> Iterator[tuple[str, str, Any]]:
    """Part of the file, name in it, and the measurement."""
    for case in CASES if seeds else ():
        for private in (False, True):
            yield "training", f"{case}{', private' if private else ''}", lambda c=case, p=private: _speed(c, p)
    for seed in range(seeds):
        for name in LANDMARKS:
            yield "fits", f"{name}, seed {seed}", lambda s=seed, n=name: _of_landmark(s, n, sizes)
        for public in PUBLIC:
            for epsilon in EPSILONS:
                told = _told(epsilon)
                name = f"{told}, public text {public}, seed {seed}"
                yield "fits", name, lambda s=seed, e=epsilon, p=public, t=told: _of_fit(t, s, e, p, sizes)
    yield from _more_tasks(seeds, sizes)


def _more_tasks(seeds: int, sizes: Sizes) -> Iterator[tuple[str, str, Any]]:
    """The same for fits with themes, and for those that take longer."""
    themed = replace(sizes, steps=0, themes=THEMES, generator=OF_THEMES)
    for seed in range(seeds):
        for rows in (sizes.rows, MORE_ROWS):
            for epsilon in EPSILONS[1:]:
                for number in (0, THEMES):
                    name = f"{_told(epsilon)}, {rows:,} rows, {number} themes, seed {seed}"
                    asked = replace(themed, rows=rows, themes=number)
                    yield "pairs", name, lambda s=seed, e=epsilon, a=asked: _of_pairs(s, e, a)
    longer = replace(sizes, steps=MORE_STEPS)
    others = [
        (f"{THEMES} themes", seeds, list(PUBLIC)[1:], themed),
        (f"{MORE_ROWS:,} rows, {THEMES} themes", seeds, [BEST], replace(themed, rows=MORE_ROWS)),
        (f"{MORE_STEPS} steps", min(seeds, 1), [BEST], longer),
        (f"{MORE_ROWS:,} rows, {MORE_STEPS} steps", min(seeds, 1), [BEST], replace(longer, rows=MORE_ROWS)),
    ]
    for words, n_seeds, offered, asked in others:
        for seed in range(n_seeds):
            for public in offered:
                for epsilon in EPSILONS[1:]:
                    told = f"{_told(epsilon)}, {words}"
                    name = f"{told}, public text {public}, seed {seed}"
                    yield "fits", name, lambda s=seed, e=epsilon, p=public, t=told, a=asked: _of_fit(t, s, e, p, a)


def _told(epsilon: float | None) -> str:
    return "no epsilon" if epsilon is None else f"epsilon {epsilon:g}"


def _speed(case: str, private: bool) -> dict[str, Any]:
    asked = [sys.executable, "-m", "benchmarks.text_training", case, *(["--private"] if private else [])]
    ran = subprocess.run(asked, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return result


def _of_landmark(seed: int, name: str, sizes: Sizes) -> dict[str, Any]:
    return {"case": name, "public": "", "seed": seed, **landmark(Case.of(sizes.rows, seed), name)}


def _of_fit(case: str, seed: int, epsilon: float | None, public: str, sizes: Sizes) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        result = fitted(Case.of(sizes.rows, seed), epsilon, public, sizes, Path(folder))
    return {"case": case, "public": public, "seed": seed, **result}


def _of_pairs(seed: int, epsilon: float, sizes: Sizes) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        result = pairs_off(sizes.rows, seed, epsilon, sizes, Path(folder))
    return {"epsilon": epsilon, "rows": sizes.rows, "themes": sizes.themes, "tvd": result}


def _training(runs: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Speed and memory, with DP-SGD over without."""
    head = ("weights trained", "texts a CPU second", "with DP-SGD", "tokens", "with DP-SGD", "MiB", "with DP-SGD")
    yield f"| model | {' | '.join(head)} |"
    yield "| --- |" + " ---: |" * len(head)
    for case in CASES:
        plain, private = runs.get(case), runs.get(f"{case}, private")
        if plain is not None and private is not None:
            cells = [f"{plain['trained']:,}"]
            for key in ("texts_s", "tokens_s"):
                cells += [f"{plain[key]:,.0f}", f"{private[key]:,.0f} ({private[key] / plain[key]:.2f}x)"]
            above = [each["peak_mib"] - each["before_mib"] for each in (plain, private)]
            cells += [f"{above[0]:,.0f}", f"{above[1]:,.0f} ({above[1] / above[0]:.1f}x)"]
            yield f"| {case} | {' | '.join(cells)} |"


def _fits(runs: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Leaks and utility as medians over seeds, and the verdicts."""
    yield f"| texts | public texts | {' | '.join(COLUMNS.values())} | verdict |"
    yield f"| --- | --- |{' ---: |' * len(COLUMNS)} --- |"
    for case in dict.fromkeys((run["case"], run["public"]) for run in runs.values()):
        same = [run for run in runs.values() if (run["case"], run["public"]) == case]
        values = [median(same, name) for name in COLUMNS]
        cells = ["" if value is None else f"{round(value, 2) + 0.0:.2f}".removesuffix(".00") for value in values]
        yield f"| {' | '.join([*case, *cells, _verdicts(same)])} |"


def _pairs(runs: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Pairs of other columns without themes and with them, as medians over seeds."""
    yield f"| rows | epsilon | pairs off, no themes | {THEMES} themes |"
    yield "| ---: | ---: | ---: | ---: |"
    for rows, epsilon in dict.fromkeys((run["rows"], run["epsilon"]) for run in runs.values()):
        columns = [
            [run["tvd"] for run in runs.values() if (run["rows"], run["epsilon"], run["themes"]) == (rows, epsilon, n)]
            for n in (0, THEMES)
        ]
        yield f"| {rows:,} | {epsilon:g} | {' | '.join(f'{statistics.median(each):.3f}' for each in columns)} |"


def _verdicts(runs: Sequence[Mapping[str, Any]]) -> str:
    """The verdict of each seed, and whether rules on leaks or on likeness failed."""
    told = []
    for run in runs:
        failed = [
            name for name, outcome in run["findings"].items() if outcome == "FAIL" and not name.startswith(WARNED)
        ]
        kinds = dict.fromkeys("leaks" if each.startswith("privacy.") else "unlike" for each in failed)
        told.append(run["verdict"] + (f": {' and '.join(kinds)}" if kinds else ""))
    return ", ".join(dict.fromkeys(told))


if __name__ == "__main__":
    main(sys.argv[1:])
