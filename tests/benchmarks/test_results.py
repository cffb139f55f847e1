"""Results on disk: drawn again without measuring anything, shown by the docs as they are drawn, continued."""

import importlib
import json
import pydoc
import re
from dataclasses import replace
from pathlib import Path

import pytest

import evaluate
import reports
import synth
import understudy
from benchmarks import neural, shelf_curves, texts
from benchmarks.drawing import draw
from benchmarks.neural_point import Point
from benchmarks.neural_task import TASKS
from benchmarks.peer import ENVIRONMENTS, TABLE_PEERS
from benchmarks.reference import DERIVED, PARTS, pages, renewed, value
from benchmarks.runs import NOT_INSTALLED, Estimation, Results, Run

ROOT = Path(__file__).parents[2]
PROGRAMS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("caution", "clusters", "conditions", "local", "neural", "pategan", "privacy", "reconstruction", "shelf"), ()
    ),
    "marginals": (), "published": (), "related": (), "sites": (), "verdicts": (),
    "bounds": ("--fits", "0", "--simulations", "0"), "texts": ("--seeds", "0"),
}  # fmt: skip
"""Programs that keep their results in a file, with what tells them to measure nothing."""
SHOWN = {
    "marginals": "how-to/published-marginals.md", "related": "how-to/related-tables.md",
    "shelf": "explanation/generators.md", "verdicts": "reference/gate.md",
}  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_results_are_drawn_again_without_measuring_anything(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, content = tmp_path / "results.json", (ROOT / f"benchmarks/{program}.json").read_text(encoding="utf-8")
    out.write_text(content, encoding="utf-8")
    importlib.import_module(f"benchmarks.{program}").main([*PROGRAMS[program], "--out", str(out)])
    drawn = capsys.readouterr().out
    assert json.loads(out.read_text(encoding="utf-8")) == json.loads(content)
    assert drawn.count("\n") > 8
    if program in SHOWN:
        page = (ROOT / "docs" / SHOWN[program]).read_text(encoding="utf-8")
        assert [table for table in drawn.strip().split("\n\n") if table not in page] == []


def test_the_docs_show_the_texts_and_the_curves_that_the_results_give() -> None:
    content = json.loads((ROOT / "benchmarks/texts.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs/how-to/free-text.md").read_text(encoding="utf-8")
    header, *drawn = texts._fits(content["fits"])
    shown = page.partition(f"{header}\n")[2].partition("\n\n")[0].splitlines()
    assert len(shown) > 10 and set(shown) <= set(drawn)  # the page shows some of the rows
    tables = json.loads((ROOT / "benchmarks/epsilons.json").read_text(encoding="utf-8"))["tables"]
    assert shelf_curves.draw_curves(tables) == (ROOT / "docs/epsilons.svg").read_text(encoding="utf-8")


# ---- The reference of the manual.


@pytest.mark.parametrize("page", pages(ROOT), ids=lambda page: page.name)
def test_a_page_of_the_reference_is_what_the_code_says(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == renewed(text), "run `python -m benchmarks.reference`"


def test_every_command_key_metric_and_public_name_stands_in_one_place() -> None:
    derived = [name for page in pages(ROOT) for _, name, _ in DERIVED.findall(page.read_text(encoding="utf-8"))]
    assert sorted(derived) == sorted(PARTS)
    page = (ROOT / "docs/reference/python.md").read_text(encoding="utf-8")
    shown = [pydoc.locate(name) for name in re.findall(r"^::: (\S+)$", page, re.MULTILINE)]
    for package in (understudy, synth, evaluate, reports):
        assert [name for name in package.__all__ if getattr(package, name) not in shown] == []


def test_values_are_told_in_words() -> None:
    assert value({"anyOf": [{"type": "integer", "minimum": 100}, {"const": "all"}]}) == 'integer ≥ 100 or `"all"`'
    assert value({"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}]}) == "number > 0"
    assert value({"type": "array", "items": {"type": "string"}}) == "list of text"


# ---- Runs that are continued.

RUN = Run("mst", 1.0, 3, fit_s=1.5, fit_cpu_s=1.4, sample_s=0.1, scores={"tv1": 0.01, "tv3": 0.1})
PEER = Run("peer.mst", 1.0, 3, failure=NOT_INSTALLED, versions={"peer": "1.0"})
ESTIMATION = Estimation("mst", 1.0, n_measurements=29, ours_s=0.5, ours_loss=12.0)


def test_a_run_that_is_there_is_not_made_again_unless_a_peer_was_not_installed(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    kept = Results(path)
    for each in (RUN, PEER, ESTIMATION):
        kept.add(each)
    again = Results(path)
    assert (again.runs, again.estimations, again.about) == ([RUN, PEER], [ESTIMATION], kept.about)
    assert draw(again) == draw(kept)
    assert [again.has("mst", *key) for key in ((1.0, 3), (1.0, 4), (0.1, 3))] == [True, False, False]
    again.add(replace(RUN, fit_s=9.0))
    assert [run.fit_s for run in Results(path).runs if run.name == "mst"] == [9.0]
    assert not again.has("peer.mst", 1.0, 3)
    again.add(replace(PEER, failure="out of memory"))
    assert again.has("peer.mst", 1.0, 3) and again.has("peer.mst", 1.0, 4)


def test_every_part_of_the_neural_benchmark_yields_points_that_a_task_is_there_for() -> None:
    points = [point for part in neural.PARTS.values() for point in part(neural._options([]))]
    assert {point.task for point in points} == set(TASKS)
    keys = [(point.name, point.epsilon, point.seed) for point in points]
    assert len(keys) == len(set(keys)), "two points would take each other's place in the file"
    names = {
        Point("quality", "tvae", epochs=5, seed=seed, epsilon=epsilon).name for seed in (0, 1) for epsilon in (1, 3)
    }
    assert names == {"quality tvae, 5 epochs, 1 threads"}


def test_every_peer_has_a_script_and_an_environment_that_is_made() -> None:
    environments = (ROOT / "Makefile").read_text().partition("PEERS := ")[2].splitlines()[0].split()
    for peer in TABLE_PEERS.values():
        assert peer.script.exists()
        assert peer.python.relative_to(ENVIRONMENTS).parts[0] in environments
