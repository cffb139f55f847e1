"""Three tasks here and with SDV and SDMetrics: ``python -m benchmarks.tasks``, in the root of the repository.

The table is the tutorial's, of 6,000 stays in a hospital. Our code is README's, and runs as it stands there. A line
is one that is not blank, those of a job among them. Seconds are those of the processor, of the whole process. Words
to learn are the names of a library that the code writes: what is imported, called, passed by name or read off an
object; commands, options, and keys of a job.
"""

import ast
import os
import re
import resource
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(\w+)(?: title=\"([\w.-]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SDV_REPORT = """
from sdmetrics.single_table import DCROverfittingProtection
from sdv.evaluation import evaluate_quality, run_diagnostic
from sdv.metadata import Metadata
from sdv.single_table import GaussianCopulaSynthesizer

train, holdout = real.iloc[:4000], real.iloc[4000:]
metadata = Metadata.detect_from_dataframes({"patients": real})
synthesizer = GaussianCopulaSynthesizer(metadata)
synthesizer.fit({"patients": train})
synthetic = synthesizer.sample(num_rows=4000)
run_diagnostic({"patients": train}, synthetic, metadata)
report = evaluate_quality({"patients": train}, synthetic, metadata)
report.save("report.pkl")
DCROverfittingProtection.compute(train, synthetic["patients"], holdout, metadata.to_dict(), table_name="patients")
"""
READ = "import pandas\nreal = pandas.read_csv('patients.csv')\n"


def main() -> None:
    """Print the table of the three tasks."""
    python, shell, job = readme()
    frame = "\n".join(line for line in python.splitlines() if "pandas" not in line)
    tried = next(line for line in shell if line.startswith("understudy try"))
    private = [line for line in shell if re.match("understudy (schema|ledger|run)", line)]
    print("| task | here: lines | CPU s | words | SDV: lines | CPU s | words |\n| --- " + "| ---: " * 6 + "|")
    rows: dict[str, tuple[tuple[str, float, set[str]], tuple[str, float, set[str]] | None]] = {
        "a DataFrame to a report": (
            (frame, in_python(READ + frame), words(frame)),
            (SDV_REPORT, in_python(READ + SDV_REPORT), words(SDV_REPORT)),
        ),
        "a CSV file to a report": (
            (tried, in_shell([tried]), options([tried])),
            (READ + SDV_REPORT, in_python(READ + SDV_REPORT), words(SDV_REPORT)),
        ),
        "a private table with its evidence": (
            ("\n".join([job, *private]), in_shell(private, job), options(private) | keys(tomllib.loads(job))),
            None,
        ),
    }
    for task, sides in rows.items():
        cells = [cell for side in sides for cell in (("none", "", "") if side is None else told(*side))]
        print(f"| {task} | {' | '.join(cells)} |")


def told(text: str, seconds: float, names: set[str]) -> tuple[str, ...]:
    """Lines, seconds and words of one side."""
    return str(sum(bool(line.strip()) for line in text.splitlines())), f"{seconds:.0f}", str(len(names))


def readme() -> tuple[str, list[str], str]:
    """README's Python, its commands and its job."""
    blocks = FENCE.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    text = {language: "".join(body for kind, _, body in blocks if kind == language) for language, *_ in blocks}
    return text["python"], [line.partition("  #")[0] for line in text["sh"].splitlines()], text["toml"]


def in_python(code: str) -> float:
    return spent([sys.executable, "-W", "ignore", "-c", code])


def in_shell(lines: list[str], job: str = "") -> float:
    """Commands one after the other; a verdict is no error."""
    script = "\n".join(f"{line} || [ $? != 2 ]" for line in lines)
    return spent(["bash", "-ec", script], {"job.toml": job})


def spent(call: list[str], files: Mapping[str, str] | None = None) -> float:
    """Seconds of the processor that a call takes beside the tutorial's table."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, ROOT / "docs/tutorials/patients.py"], cwd=folder, check=True)
        for name, text in (files or {}).items():
            Path(folder, name).write_text(text, encoding="utf-8")
        own = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        around = {**os.environ, "PATH": own, "PYTHONPATH": str(ROOT), "UNDERSTUDY_KEY_FILE": f"{folder}/key"}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(call, cwd=folder, env=around, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def words(code: str) -> set[str]:
    """Names of a library in Python: modules, what is imported of them, attributes and keywords."""
    return {name for node in ast.walk(ast.parse(code)) for name in named(node)} - {"print", "sep", "iloc"}


def named(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (each.name for each in names)
        case ast.ImportFrom(module=module, names=names):
            yield from (str(module), *(each.name for each in names))
        case ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
            yield name


def options(lines: list[str]) -> set[str]:
    """Commands and options."""
    return {word for line in lines for word in re.findall(r"^understudy(?: [a-z-]+)+|--[a-z-]+", line)}


def keys(job: Mapping[str, Any]) -> set[str]:
    return {name for key, value in job.items() for name in (key, *(keys(value) if isinstance(value, Mapping) else ()))}


if __name__ == "__main__":
    main()
