"""Each extra deleted in turn, then all of them: ``python -m benchmarks.extras_apart``, in the root of the repository.

What is left must import whole, and fit, sample, judge and report on a small table: a core that needs an extra ends here
with 1. Nothing is deleted: the packages are laid out anew in a temporary folder, by links.
"""

import importlib
import os
import pkgutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PACKAGES = ("synth", "evaluate", "reports")
EXTRAS = Path("understudy/extras")
N = 300


def main(root: Path) -> int:
    names = sorted(path.parent.name for path in (root / EXTRAS).glob("*/__init__.py"))
    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(lambda gone: without(root, gone), [*((name,) for name in names), tuple(names)]))
    return max(ends)


def without(root: Path, gone: tuple[str, ...]) -> int:
    """The exit code of `use_core` where some extras are not there; what it printed follows if it failed."""
    with tempfile.TemporaryDirectory() as synthetic:
        home = Path(synthetic)
        for package in PACKAGES:
            (home / package).symlink_to(root / package)
        (home / EXTRAS).mkdir(parents=True)
        for folder, skipped in ((Path("understudy"), {"extras"}), (EXTRAS, {*gone})):
            for path in (root / folder).iterdir():
                if path.name not in skipped:
                    (home / folder / path.name).symlink_to(path)
        command = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--core"]
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": synthetic},
            cwd=synthetic,
            capture_output=True,
            text=True,
            check=False,
        )
    words = "the core works" if done.returncode == 0 else f"the core fails\n{done.stdout}{done.stderr}"
    print(f"without {', '.join(gone)}: {words}", flush=True)
    return min(done.returncode, 1)


def use_core() -> None:
    """Import all of the core, and use it from a table to its report."""
    import numpy as np
    import pandas as pd

    import evaluate
    import reports
    import synth
    from understudy.cli import app

    for name in modules():
        importlib.import_module(name)
    rng = np.random.default_rng(0)
    real = pd.DataFrame({"age": rng.integers(18, 90, 2 * N), "city": rng.choice(["Bern", "Basel", "Zug"], 2 * N)})
    real["old"] = real["age"] > 60
    train, holdout = real[:N], real[N:].reset_index(drop=True)
    schema = synth.infer_schema(train, target="old")
    public = synth.declare_schema(schema, n_units=N)
    models = (synth.fit(train, schema, "trees"), synth.fit(train, public, "mst", epsilon=1.0))
    tables = {model.name: model.sample(N, seed=0) for model in models}
    evaluation = evaluate.evaluate(train, tables, holdout=holdout, schema=schema, seed=0)
    verdicts = evaluate.judge(evaluation, evaluate.load_policy("internal"))
    page = reports.render_html(evaluation, verdicts=verdicts)
    broken = [
        failure for candidate in evaluation.candidates for failure in candidate.failures if failure.reason == "failed"
    ]
    if broken or "</html>" not in page or not app.registered_commands:
        sys.exit(f"the core is broken: {broken}")


def modules() -> Iterator[str]:
    """Every module of the core by name."""
    for package in (*PACKAGES, "understudy"):
        for evaluation in pkgutil.walk_packages([package], f"{package}."):
            if not evaluation.name.startswith("understudy.extras") and not evaluation.name.endswith("__main__"):
                yield evaluation.name


if __name__ == "__main__":
    if "--core" in sys.argv:
        sys.path = [path for path in sys.path if path != str(Path(__file__).resolve().parent)]
        use_core()
    else:
        sys.exit(main(Path.cwd()))
