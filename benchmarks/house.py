"""Figures of the house: ``python -m benchmarks.house``, in the root of the repository.

Files, lines and folders of the four packages and of the tests; files that only one neighbor of their package imports;
class names of more than one meaning; types that public results leave open; files that name a metric, an attack and a
generator as a text. Imports inside functions count like others. Lines are all lines of a file.

``--check`` compares folders with their budgets, `[tool.house.lines]` of pyproject.toml, and ends with 1 where one is
exceeded: whoever adds a line then takes away another in the same folder.
"""

import ast
import statistics
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PACKAGES = ("synth", "evaluate", "reports", "understudy")
MOST_MODULES = 20
SLACK = 0.95
"""Share of a budget under which it is lowered, so that what was saved stays saved."""
RESULTS = ("evaluate/result.py", "synth/dp/statement.py", "evaluate/gate/verdict.py", "evaluate/gate/decision.py")
"""Files of results that users hold."""
SAMPLES = {"metric": "triples.tvd", "attack": "privacy.linkability", "generator": "latent_class"}


def main(root: Path) -> None:
    """Print the figures as a table."""
    paths = {path: path.read_text(encoding="utf-8") for path in files(root, PACKAGES)}
    trees = {path: ast.parse(text) for path, text in paths.items()}
    lengths = [len(text.splitlines()) for text in paths.values()]
    tests = [path.read_text(encoding="utf-8") for path in files(root, ("tests",))]
    print("| figure | here |\n| --- | ---: |")
    rows: dict[str, object] = {
        "product files / median lines": f"{len(paths)} / {statistics.median(lengths):.0f}",
        "product lines": f"{sum(lengths):,}",
        "tests: files / lines": f"{len(tests)} / {sum(len(text.splitlines()) for text in tests):,}",
        f"folders of more than {MOST_MODULES} modules": sum(n > MOST_MODULES for n in crowds(paths).values()),
        "files that one neighbor of their package imports alone": len(lone(root, trees)),
        "public class names of more than one meaning": sum(len(homes) > 1 for homes in classes(trees).values()),
        "`Mapping[str, Any]` in public results": sum(open_types(root / name) for name in RESULTS),
        "asserts": sum(isinstance(node, ast.Assert) for tree in trees.values() for node in ast.walk(tree)),
    }
    for kind, name in SAMPLES.items():
        rows[f"product files that name the {kind} `{name}`"] = sum(f'"{name}"' in text for text in paths.values())
    print("\n".join(f"| {name} | {value} |" for name, value in rows.items()))
    if "--names" in sys.argv:
        print(
            *sorted(f"{name}: {', '.join(homes)}" for name, homes in classes(trees).items() if len(homes) > 1), sep="\n"
        )
        print(*sorted(f"{path.relative_to(root)}" for path in lone(root, trees)), sep="\n")


def over_budget(root: Path) -> Iterator[str]:
    """A sentence for each folder that has more lines than its budget, or so few that the budget is slack."""
    budgets = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["house"]["lines"]
    for name, most in budgets.items():
        paths = [root / name] if name.endswith(".py") else files(root, (name,))
        n = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)
        if n > most:
            yield f"{name} has {n:,} lines, budget={most:,}; remove {n - most:,} of them"
        elif n < SLACK * most:
            yield f"{name} has {n:,} lines, budget={most:,}; lower the budget in pyproject.toml"


def files(root: Path, packages: Sequence[str]) -> Iterator[Path]:
    """Python files of some folders."""
    for package in packages:
        yield from sorted((root / package).rglob("*.py"))


def crowds(paths: Mapping[Path, str]) -> Mapping[Path, int]:
    """Modules of each folder, without its `__init__`."""
    counts: dict[Path, int] = defaultdict(int)
    for path in paths:
        counts[path.parent] += path.stem != "__init__"
    return counts


def classes(trees: Mapping[Path, ast.Module]) -> Mapping[str, list[str]]:
    """The files of each public class by its name."""
    counts: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                counts[node.name].append(str(path))
    return counts


def lone(root: Path, trees: Mapping[Path, ast.Module]) -> list[Path]:
    """Files that one file alone imports, which lies in the same folder."""
    names = {module(root, path): path for path in trees}
    importers: dict[Path, set[Path]] = defaultdict(set)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            for name in imported(node):
                if (target := names.get(name)) is not None and target != path:
                    importers[target].add(path)
    return [
        target
        for target, counts in importers.items()
        if target.stem != "__init__" and len(counts) == 1 and next(iter(counts)).parent == target.parent
    ]


def module(root: Path, path: Path) -> str:
    """The name that a file is imported by."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(node: ast.AST) -> Iterator[str]:
    """Names that an import may mean: of modules, and of what lies in them."""
    if isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)


def open_types(path: Path) -> int:
    """Fields and arguments of a file whose type is `Mapping[str, Any]`."""
    if not path.exists():
        return 0
    counts = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.AnnAssign)]
    return sum("Mapping[str, Any]" in ast.unparse(node.annotation) for node in counts)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit("\n".join(over_budget(Path())) or 0)
    main(Path())
