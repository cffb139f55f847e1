"""A run that is killed at any moment goes on where it was: no draw is unpaid, and what it leaves is whole."""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.dp.accounting import rdp_curve
from synth.dp.budget import Budget
from synth.dp.events import Event, GaussianEvent, SelectionEvent
from synth.dp.ledger import open_ledger
from synth.dp.noise_journal import Journal
from synth.dp.renyi_curve import ORDERS, RdpCurve
from synth.generators.registry import load_model
from tests.understudy.driving import RUN, SCRIPT, Driver, serving
from understudy.bundle.verification import Demand, verify
from understudy.run import stages
from understudy.run.plan import make_plan
from understudy.run.workspace import unfinished

PRIVATE = {"independent": {"epsilon": 0.5}, "mst": {"epsilon": 1.0}}
GENERATORS = {**PRIVATE, "plain": {"generator": "independent"}}
N_DRAWS = {"independent": 4, "mst": 4 + 3 + 3}
FILES = {
    "report.html", "evaluation.json", "verdict.json", "job.toml", "schema.toml", "policy.toml", "summary.md",
    "junit.xml", "metrics.public.prom", "metrics.internal.prom", "manifest.json", "manifest.json.sig",
    *(f"cards/{label}.{suffix}" for label in GENERATORS for suffix in ("yaml", "md")),
    *(f"synthetic/{label}.csv" for label in GENERATORS),
    *(f"models/{label}/{part}" for label in GENERATORS for part in ("model.json", "arrays.safetensors")),
}  # fmt: skip


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with serving(tmp_path_factory.mktemp("key"), SCRIPT) as process:
        yield Driver(process)


def prepared(workspace: Any, name: str, *, total: float | None = 10.0, **changes: Any) -> Path:
    """A folder with a table, a schema, a job and, unless there is no total, a ledger."""
    folder: Path = workspace.folder / name
    folder.mkdir()
    inner = type(workspace)(folder)
    shutil.copy(workspace.folder / "table.csv", folder / "table.csv")
    inner.write_schema(dataset="patients")
    ledger = {} if total is None else {"ledger": {"url": "ledger.db"}}
    inner.write_job(**{"generators": GENERATORS, "evaluation": {"measures": ["validity"]}, **ledger, **changes})
    if total is not None:
        open_ledger(folder / "ledger.db").open("patients", unit="row", epsilon=total, n_units=900)
    return folder


def moments(folder: Path) -> list[str]:
    return (folder / "moments.log").read_text().splitlines()


def draws(folder: Path) -> list[Event]:
    """Everything that was drawn, whoever died after it; one row is one unit, which moves a score or a count by one."""
    path = folder / "draws.log"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [
        GaussianEvent("a draw", sigma=scale) if name == "gaussian" else SelectionEvent("a choice", epsilon=2 / scale)
        for name, scale in lines
    ]


def charged(folder: Path) -> RdpCurve:
    (holding,) = open_ledger(folder / "ledger.db").holdings()
    return holding.curve


def assert_paid(folder: Path) -> None:
    """At every order, the ledger holds at least what all draws together cost."""
    paid, cost = charged(folder).divergences, rdp_curve(draws(folder)).divergences
    short = [order for order, p, c in zip(ORDERS, paid, cost, strict=True) if p < c * (1 - 1e-9)]
    assert not short, f"{len(draws(folder))} draws are not paid for"


def assert_whole(folder: Path) -> None:
    out = folder / "out"
    assert {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()} == FILES
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
    assert verify(out, Demand()).problems == ()
    assert open_ledger(folder / "ledger.db").verify() == ()
    for label in PRIVATE:
        statement = load_model(out / "models" / label).statement
        assert statement is not None
        assert statement.ledger is not None
        assert open_ledger(folder / "ledger.db").reservation(statement.ledger.reservation).state == "committed"


def killed_at(driver: Driver, workspace: Any, n: int) -> Path:
    """The folder of one run that dies at a moment, is started again until it ends, and what must hold then."""
    folder = prepared(workspace, f"moment{n}")
    assert driver.attempt(folder, die_at=n) == -9
    assert_paid(folder)
    ended = (folder / "out").exists()
    assert driver.attempt(folder) == (2 if ended else 0), (folder / "stderr.txt").read_text()
    assert_paid(folder)
    assert_whole(folder)
    (holding,) = open_ledger(folder / "ledger.db").holdings()
    assert holding.n_releases <= len(PRIVATE) + 1
    return folder


@pytest.fixture
def uninterrupted(driver: Driver, workspace: Any) -> Path:
    folder = prepared(workspace, "uninterrupted")
    assert driver.attempt(folder) == 0, (folder / "stderr.txt").read_text()
    return folder


def test_a_run_that_is_left_alone_draws_what_it_reserved(uninterrupted: Path) -> None:
    assert_whole(uninterrupted)
    assert len(draws(uninterrupted)) == sum(N_DRAWS.values())
    paid, cost = charged(uninterrupted).divergences, rdp_curve(draws(uninterrupted)).divergences
    np.testing.assert_allclose(paid, cost, rtol=1e-9)


TELLING = ("reserve", "use", "commit", "gaussian", "noisy_max")


@pytest.mark.slow
def test_a_run_that_is_killed_around_its_draws_and_its_ledger_goes_on(
    driver: Driver, workspace: Any, uninterrupted: Path
) -> None:
    passed = moments(uninterrupted)
    firsts = {passed.index(f"{name}:{side}") for name in TELLING for side in ("before", "after")}
    second_use = [n for n, name in enumerate(passed) if name == "use:after"][1]
    last_draw = max(n for n, name in enumerate(passed) if name == "gaussian:after")
    final = max(n for n, name in enumerate(passed) if name == "replace:after")
    for n in sorted({*firsts, second_use, last_draw, final - 1, final, len(passed) - 1}):
        shutil.rmtree(killed_at(driver, workspace, n))


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_moment_goes_on(driver: Driver, workspace: Any, uninterrupted: Path) -> None:
    passed = moments(uninterrupted)
    last_draw = max(n for n, name in enumerate(passed) if name in ("gaussian:after", "noisy_max:after"))
    # From there on files are written and renamed, one like the other, until the folder is sealed and takes its name.
    for n in (*range(last_draw), *range(last_draw, len(passed) - 20, 5), *range(len(passed) - 20, len(passed))):
        shutil.rmtree(killed_at(driver, workspace, n))


def test_a_run_that_is_killed_again_and_again_ends_and_pays_for_all_its_draws(driver: Driver, workspace: Any) -> None:
    folder = prepared(workspace, "often")
    rng, deaths = np.random.default_rng(2), 0
    while driver.attempt(folder, die_at=int(rng.integers(10, 150 + 30 * deaths))) == -9:
        deaths += 1
        assert_paid(folder)
    assert deaths > 4
    assert_paid(folder)
    assert_whole(folder)


def killed_in_mst(driver: Driver, workspace: Any, n_drawn: int, *, side: str) -> Path:
    """A run that died beside the n-th draw of its second private fit."""
    names = prepared(workspace, "counted")
    assert driver.attempt(names) == 0
    drawing = [n for n, name in enumerate(moments(names)) if name in (f"gaussian:{side}", f"noisy_max:{side}")]
    folder = prepared(workspace, "killed")
    assert driver.attempt(folder, die_at=drawing[N_DRAWS["independent"] + n_drawn]) == -9
    return folder


def test_only_the_draw_whose_value_was_lost_is_drawn_again_and_somebody_is_told(driver: Driver, workspace: Any) -> None:
    folder = killed_in_mst(driver, workspace, 6, side="after")
    once = charged(folder)
    assert driver.attempt(folder, arguments=[*RUN, "--json"]) == 0
    assert len(draws(folder)) == sum(N_DRAWS.values()) + 1
    extra = [c - o for c, o in zip(charged(folder).divergences, once.divergences, strict=True)]
    np.testing.assert_allclose(extra, rdp_curve([draws(folder)[N_DRAWS["independent"] + 6]]).divergences, rtol=1e-6)
    said = json.loads((folder / "stdout.txt").read_text())
    assert any("generators.mst: a draw was lost" in sentence for sentence in said["warnings"])
    evaluation = json.loads((folder / "out" / "evaluation.json").read_text())
    assert evaluation["provenance"]["warnings"] == said["warnings"]


@pytest.mark.parametrize("moment", [pytest.param("charge:before", marks=pytest.mark.slow), "charge:after"])
def test_a_lost_draw_is_charged_before_it_is_drawn_again_whoever_dies_when(
    driver: Driver, workspace: Any, moment: str
) -> None:
    folder = killed_in_mst(driver, workspace, 6, side="after")
    assert driver.attempt(folder, die_at=moment) == -9
    assert_paid(folder)
    assert driver.attempt(folder) == 0
    assert_paid(folder)
    kinds = [entry.kind for entry in open_ledger(folder / "ledger.db").history()]
    assert kinds.count("charged") == (1 if moment == "charge:before" else 2)


def test_the_values_on_the_disk_are_those_in_the_model(driver: Driver, workspace: Any) -> None:
    folder = killed_in_mst(driver, workspace, 6, side="before")
    journal = folder / ".out.unfinished" / "journals" / "mst.journal"
    cut_short = journal.read_text()
    assert cut_short.count('"value"') == 6
    assert driver.attempt(folder, die_at="rmtree .out.unfinished:before") == -9
    assert journal.read_text().startswith(cut_short)
    shutil.copy(journal, folder / "mst.journal")
    plan = make_plan(folder / "job.toml", folder / "elsewhere")
    train = stages.split(plan, stages.read(plan, workspace.folder)).train
    with closing(Journal(folder / "mst.journal")) as kept:
        replayed = Budget(plan.schedules["mst"], noise=Silent(), journal=kept)
        plan.generators["mst"].fit(train, plan.schema, budget=replayed).save(folder / "replayed")  # type: ignore[call-arg]
    assert parts(folder / "replayed") == parts(folder / "out" / "models" / "mst")


class Silent:
    """Noise that must not be asked for."""

    private = True

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was drawn again")


def parts(model: Path) -> bytes:
    return (model / "arrays.safetensors").read_bytes()


def test_a_resumed_run_leaves_what_an_uninterrupted_one_would(driver: Driver, workspace: Any) -> None:
    """Without private fits nothing differs from run to run but times."""
    plain = {"plain": {"generator": "independent"}, "tree": {"generator": "mst", "n_bins": 8}}
    whole = prepared(workspace, "whole", total=None, generators=plain, seed=3)
    assert driver.attempt(whole) == 0
    names = moments(whole)
    final = max(n for n, name in enumerate(names) if name == "replace:before")
    for n in (len(names) // 2, len(names) * 3 // 4, final - 20):  # the first run has a few more: it makes a key
        folder = prepared(workspace, f"resumed{n}", total=None, generators=plain, seed=3)
        assert driver.attempt(folder, die_at=n) == -9
        assert (folder / ".out.unfinished").exists()
        assert driver.attempt(folder) == 0
        assert contents(folder / "out") == contents(whole / "out")


SHOW = ("report.html", "summary.md", "manifest", "metrics", "cards/")
"""Files that show times, the run's own name, or how often the table was measured."""


def contents(out: Path) -> dict[str, Any]:
    """Every file but those; of the evaluation all but that."""
    names = {str(path.relative_to(out)): path for path in out.rglob("*") if path.is_file()}
    found: dict[str, Any] = {name: path.read_bytes() for name, path in names.items() if not name.startswith(SHOW)}
    evaluation = json.loads(found["evaluation.json"])
    for candidate in evaluation["candidates"]:
        candidate["seconds"] = sorted(candidate["seconds"])
    for name in ("run_id", "attempts", "evaluated_at"):
        del evaluation["provenance"][name]
    return {**found, "evaluation.json": evaluation, "names": set(names)}


def test_outside_a_ledger_the_same_journal_works_and_a_lost_draw_is_told(driver: Driver, workspace: Any) -> None:
    folder = prepared(workspace, "outside", total=None, generators=PRIVATE)
    assert driver.attempt(folder, die_at="noisy_max:after") == -9
    assert driver.attempt(folder, arguments=[*RUN, "--json"]) == 0
    assert len(draws(folder)) == sum(N_DRAWS.values()) + 1
    said = json.loads((folder / "stdout.txt").read_text())
    assert any("outside a ledger nothing adds that" in sentence for sentence in said["warnings"])
    assert said["ledger"] is None


def test_a_used_reservation_without_a_value_is_spent_and_another_is_made(driver: Driver, workspace: Any) -> None:
    folder = prepared(workspace, "spent")
    assert driver.attempt(folder, die_at="gaussian:after") == -9
    assert driver.attempt(folder) == 0
    (holding,) = open_ledger(folder / "ledger.db").holdings()
    assert holding.n_releases == 3
    kinds = [entry.kind for entry in open_ledger(folder / "ledger.db").history()]
    assert kinds.count("reserved") == 3
    assert kinds.count("charged") == 0
    assert kinds.count("committed") == 2
    assert_whole(folder)


def test_a_reservation_that_is_spent_and_cannot_be_made_again_is_refused_in_one_sentence(
    driver: Driver, workspace: Any
) -> None:
    folder = prepared(workspace, "short", total=1.6, generators={"mst": {"epsilon": 1.0}})
    assert driver.attempt(folder, die_at="use:after") == -9
    assert driver.attempt(folder) == 2
    assert "the total of dataset='patients'" in one_sentence(folder)
    (holding,) = open_ledger(folder / "ledger.db").holdings()
    assert holding.n_releases == 1
    assert not (folder / "draws.log").exists()
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_a_lost_draw_that_the_total_does_not_admit_again_is_refused_in_one_sentence(
    driver: Driver, workspace: Any
) -> None:
    generators = {"independent": {"epsilon": 1.0}}
    plenty = prepared(workspace, "plenty", generators=generators)
    assert driver.attempt(plenty) == 0
    spent = spent_exactly(plenty)
    folder = prepared(workspace, "tight", total=spent, generators=generators)
    second = [n for n, name in enumerate(moments(plenty)) if name == "gaussian:after"][1]
    assert driver.attempt(folder, die_at=second) == -9
    n_drawn = len(draws(folder))
    assert driver.attempt(folder) == 2
    message = one_sentence(folder)
    assert "this charge" in message
    assert "the unfinished work is kept" in message
    assert len(draws(folder)) == n_drawn
    assert_paid(folder)


def spent_exactly(folder: Path) -> float:
    """A total that a run's reservation fills, hardly more."""
    from synth.dp.renyi_curve import RdpFilter

    curve, delta = charged(folder), 1e-6
    (holding,) = open_ledger(folder / "ledger.db").holdings()
    delta = holding.delta
    low, high = 0.01, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if RdpFilter(middle, delta).admits(curve) else (middle, high)
    return high


def one_sentence(folder: Path) -> str:
    lines = (folder / "stderr.txt").read_text().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("Error: ")
    assert lines[0].endswith(".")
    return lines[0]


def change_job(folder: Path) -> None:
    path = folder / "job.toml"
    path.write_text(f"seed = 9\n{path.read_text()}")


def change_schema(folder: Path) -> None:
    path = folder / "schema.toml"
    path.write_text(f"# another\n{path.read_text()}")


def change_table(folder: Path) -> None:
    frame = pd.read_csv(folder / "table.csv")
    frame.iloc[1:].to_csv(folder / "table.csv", index=False)


CHANGES = {"job": change_job, "schema": change_schema, "table": change_table}


@pytest.mark.parametrize("what", ["job", *(pytest.param(w, marks=pytest.mark.slow) for w in ("schema", "table"))])
def test_other_work_is_not_taken_up_and_restart_begins_anew(driver: Driver, workspace: Any, what: str) -> None:
    folder = prepared(workspace, what)
    assert driver.attempt(folder, die_at="commit:before") == -9
    before = {path: path.read_bytes() for path in (folder / ".out.unfinished").rglob("*") if path.is_file()}
    CHANGES[what](folder)
    n_drawn = len(draws(folder))
    assert driver.attempt(folder) == 2
    message = one_sentence(folder)
    assert f"of another {what}" in message
    assert "--restart" in message
    assert {path: path.read_bytes() for path in before} == before
    assert len(draws(folder)) == n_drawn
    assert driver.attempt(folder, arguments=[*RUN, "--restart"]) == 0
    (holding,) = open_ledger(folder / "ledger.db").holdings()
    assert holding.n_releases == 4
    assert_paid(folder)
    assert_whole(folder)


def test_work_is_not_taken_up_under_another_ledger(driver: Driver, workspace: Any) -> None:
    folder = prepared(workspace, "moved")
    assert driver.attempt(folder, die_at="commit:before") == -9
    job = (folder / "job.toml").read_text()
    open_ledger(folder / "other.db").open("patients", unit="row", epsilon=10.0, n_units=900)
    shutil.move(folder / "ledger.db", folder / "kept.db")
    (folder / "ledger.db").symlink_to(folder / "other.db")
    assert driver.attempt(folder) == 2
    assert "of another ledger" in one_sentence(folder)
    assert (folder / "job.toml").read_text() == job


def test_a_copy_of_unfinished_work_is_not_taken_up(driver: Driver, workspace: Any) -> None:
    """Both would draw what is left to draw, under one reservation."""
    folder = prepared(workspace, "twice")
    assert driver.attempt(folder, die_at="noisy_max:after") == -9
    shutil.copytree(folder / ".out.unfinished", folder / ".copy.unfinished")
    assert driver.attempt(folder, arguments=["run", "job.toml", "--out", "copy", "--quiet"]) == 2
    assert "of another output" in one_sentence(folder)


@pytest.mark.slow
def test_a_restart_that_is_killed_leaves_nothing_that_another_start_would_take_for_work(
    driver: Driver, workspace: Any
) -> None:
    folder = prepared(workspace, "restarted")
    assert driver.attempt(folder, die_at="commit:after") == -9
    for moment in ("rmtree measured:after", "rmtree result:after", "rmtree reservations:after"):
        assert driver.attempt(folder, die_at=moment, arguments=[*RUN, "--restart"]) == -9
        assert driver.attempt(folder, die_at="commit:after") == -9
    assert driver.attempt(folder) == 0
    assert_paid(folder)
    assert_whole(folder)


def test_a_fit_is_drawn_once_though_a_later_stage_failed(driver: Driver, workspace: Any) -> None:
    generators = {"mst": {"epsilon": 1.0}, "tvae": {"generator": "sdv.tvae", "epochs": 1, "gpu": False}}
    pytest.importorskip("sdv")
    folder = prepared(workspace, "later", generators=generators)
    assert driver.attempt(folder, die_at="commit:after") == -9
    n_drawn = len(draws(folder))
    assert driver.attempt(folder) == 0
    assert len(draws(folder)) == n_drawn == N_DRAWS["mst"]
    evaluation = json.loads((folder / "out" / "evaluation.json").read_text())
    assert [sorted(c["seconds"]) for c in evaluation["candidates"]] == [["fit", "sample", "validity"]] * 2


@pytest.mark.slow
def test_a_copy_of_unfinished_work_draws_nothing_once_its_run_is_finished(driver: Driver, workspace: Any) -> None:
    only = {"generators": {"mst": PRIVATE["mst"]}}
    assert driver.attempt(prepared(workspace, "whole", **only)) == 0
    draws = [n for n, name in enumerate(moments(workspace.folder / "whole")) if name == "gaussian:before"]
    folder = prepared(workspace, "copied", **only)
    assert driver.attempt(folder, die_at=draws[2]) == -9
    shutil.copytree(folder / ".out.unfinished", folder / "copy")
    journal = folder / "copy" / "journals" / "mst.journal"
    # Without the draw that was begun: nothing in the copy says that it is an old one.
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:-1]))
    assert driver.attempt(folder) == 0
    drawn = (folder / "draws.log").read_text()
    (folder / "out").rename(folder / "first")
    (folder / "copy").rename(folder / ".out.unfinished")
    assert driver.attempt(folder) == 2
    assert (folder / "draws.log").read_text() == drawn


def test_what_is_left_of_an_output_that_was_moved_away_is_not_taken_up(tmp_path: Path) -> None:
    names, out, left = {"job": "a"}, tmp_path / "out", tmp_path / "left"
    with unfinished(out) as work:
        work.claim(names)
        work.measured("mst").write_text("{}")
        work.unfinished.publish()
        shutil.copytree(work.folder, left)  # of a process that is killed here
    out.rename(tmp_path / "moved")
    left.rename(work.folder)
    with unfinished(out) as again:
        again.claim(names)
        assert not again.measured("mst").exists()
