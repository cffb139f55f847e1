"""A run that is killed at any moment goes on where it was: no draw is unpaid, and what it leaves is whole."""

import json
import shutil
from bisect import bisect_left
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from synth.dp.accounting import rdp_curve
from synth.dp.budget import Budget
from synth.dp.ledger import open_ledger
from synth.dp.noise_journal import Journal
from synth.dp.renyi_curve import RdpFilter
from synth.generators.registry import load_model
from tests.understudy.conftest import Workspace, small_table
from tests.understudy.driving import RUN, Driver, assert_paid, charged, draws, moments, one_sentence, prepared
from understudy.bundle.verification import Demand, verify
from understudy.run import stages
from understudy.run.plan import make_plan

PRIVATE = {"independent": {"epsilon": 0.5}, "mst": {"epsilon": 1.0}}
N_DRAWS = {"independent": 4, "mst": 4 + 3 + 3}
FILES = {
    "report.html", "evaluation.json", "verdict.json", "job.toml", "schema.toml", "policy.toml", "summary.md",
    "junit.xml", "metrics.public.prom", "metrics.internal.prom", "manifest.json", "manifest.json.sig",
    *(f"cards/{label}.{suffix}" for label in PRIVATE for suffix in ("yaml", "md")),
    *(f"synthetic/{label}.csv" for label in PRIVATE),
    *(f"models/{label}/{part}" for label in PRIVATE for part in ("model.json", "arrays.safetensors")),
}  # fmt: skip


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
    folder = prepared(workspace, f"moment{n}", generators=PRIVATE)
    assert driver.attempt(folder, die_at=n) == -9
    assert_paid(folder)
    ended = (folder / "out").exists()
    assert driver.attempt(folder) == (2 if ended else 0), (folder / "stderr.txt").read_text()
    assert_paid(folder)
    assert_whole(folder)
    (holding,) = open_ledger(folder / "ledger.db").holdings()
    assert holding.n_releases <= len(PRIVATE) + 1
    return folder


@pytest.fixture(scope="module")
def uninterrupted(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Path:
    workspace = Workspace(tmp_path_factory.mktemp("uninterrupted"))
    workspace.write_table(small_table())
    folder = prepared(workspace, "whole", generators=PRIVATE)
    assert driver.attempt(folder) == 0, (folder / "stderr.txt").read_text()
    return folder


def test_a_run_that_is_left_alone_draws_what_it_reserved(uninterrupted: Path) -> None:
    assert_whole(uninterrupted)
    assert len(draws(uninterrupted)) == sum(N_DRAWS.values())
    paid, cost = charged(uninterrupted).divergences, rdp_curve(draws(uninterrupted)).divergences
    np.testing.assert_allclose(paid, cost, rtol=1e-9)


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_moment_goes_on(driver: Driver, workspace: Any, uninterrupted: Path) -> None:
    passed = moments(uninterrupted)
    last_draw = max(n for n, name in enumerate(passed) if name in ("gaussian:after", "noisy_max:after"))
    # From there on files are written and renamed, one like the other, until the folder is sealed and takes its name.
    for n in (*range(last_draw), *range(last_draw, len(passed) - 20, 5), *range(len(passed) - 20, len(passed))):
        shutil.rmtree(killed_at(driver, workspace, n))


@pytest.mark.statistical  # a run for each death
def test_a_run_that_is_killed_again_and_again_ends_and_pays_for_all_its_draws(driver: Driver, workspace: Any) -> None:
    folder = prepared(workspace, "often", generators=PRIVATE)
    rng, deaths = np.random.default_rng(2), 0
    while driver.attempt(folder, die_at=int(rng.integers(40, 200 + 80 * deaths))) == -9:
        deaths += 1
        assert_paid(folder)
    assert deaths > 2
    assert_paid(folder)
    assert_whole(folder)


def killed_in_mst(driver: Driver, workspace: Any, uninterrupted: Path, n_drawn: int, *, side: str) -> Path:
    """A run that died beside the n-th draw of its second private fit."""
    passed = moments(uninterrupted)
    drawing = [n for n, name in enumerate(passed) if name in (f"gaussian:{side}", f"noisy_max:{side}")]
    folder = prepared(workspace, "killed", generators=PRIVATE)
    assert driver.attempt(folder, die_at=drawing[N_DRAWS["independent"] + n_drawn]) == -9
    return folder


def test_only_the_draw_whose_value_was_lost_is_drawn_again_charged_before_whoever_dies_when_and_told(
    driver: Driver, workspace: Any, uninterrupted: Path
) -> None:
    folder = killed_in_mst(driver, workspace, uninterrupted, 6, side="after")
    once, lost = np.array(charged(folder).divergences), draws(folder)[N_DRAWS["independent"] + 6]
    assert driver.attempt(folder, die_at="charge:after") == -9  # the next start cannot know whether it was drawn
    assert_paid(folder)
    assert driver.attempt(folder, arguments=[*RUN, "--json"]) == 0
    assert len(draws(folder)) == sum(N_DRAWS.values()) + 1
    extra = np.array(charged(folder).divergences) - once
    np.testing.assert_allclose(extra, 2 * np.array(rdp_curve([lost]).divergences), rtol=1e-6)
    text = json.loads((folder / "stdout.txt").read_text())
    assert any("generators.mst: a draw was lost" in sentence for sentence in text["warnings"])
    evaluation = json.loads((folder / "out" / "evaluation.json").read_text())
    assert evaluation["provenance"]["warnings"] == text["warnings"]


def test_the_values_on_the_disk_are_those_in_the_model(driver: Driver, workspace: Any, uninterrupted: Path) -> None:
    folder = killed_in_mst(driver, workspace, uninterrupted, 6, side="before")
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
    replay, model = (path / "arrays.safetensors" for path in (folder / "replayed", folder / "out" / "models" / "mst"))
    assert replay.read_bytes() == model.read_bytes()


class Silent:
    """Noise that must not be asked for."""

    private = True

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was drawn again")


def test_outside_a_ledger_the_same_journal_works_and_a_lost_draw_is_told(driver: Driver, workspace: Any) -> None:
    folder = prepared(workspace, "outside", total=None, generators=PRIVATE)
    assert driver.attempt(folder, die_at="noisy_max:after") == -9
    assert driver.attempt(folder, arguments=[*RUN, "--json"]) == 0
    assert len(draws(folder)) == sum(N_DRAWS.values()) + 1
    text = json.loads((folder / "stdout.txt").read_text())
    assert any("outside a ledger nothing adds that" in sentence for sentence in text["warnings"])
    assert text["ledger"] is None


def test_a_used_reservation_without_a_value_is_spent_and_another_is_made(driver: Driver, workspace: Any) -> None:
    folder = prepared(workspace, "spent", generators=PRIVATE)
    assert driver.attempt(folder, die_at="gaussian:after") == -9
    assert driver.attempt(folder) == 0
    (holding,) = open_ledger(folder / "ledger.db").holdings()
    assert holding.n_releases == 3
    kinds = [entry.kind for entry in open_ledger(folder / "ledger.db").history()]
    assert [kinds.count(kind) for kind in ("reserved", "charged", "committed")] == [3, 0, 2]
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
    driver: Driver, workspace: Any, uninterrupted: Path
) -> None:
    (holding,) = open_ledger(uninterrupted / "ledger.db").holdings()
    totals = np.geomspace(0.5, 5, 10_000)  # the first holds what a run reserves, and hardly more
    first = bisect_left(totals, True, key=lambda total: RdpFilter(total, holding.delta).admits(holding.curve))
    folder = prepared(workspace, "tight", total=float(totals[first]), generators=PRIVATE)
    assert driver.attempt(folder, die_at="gaussian:after#1") == -9
    n_drawn = len(draws(folder))
    assert driver.attempt(folder) == 2
    message = one_sentence(folder)
    assert "this charge" in message and "the unfinished work is kept" in message
    assert len(draws(folder)) == n_drawn
    assert_paid(folder)


def test_other_work_is_not_taken_up_and_restart_begins_anew(driver: Driver, workspace: Any) -> None:
    folder = prepared(workspace, "other", generators=PRIVATE)
    assert driver.attempt(folder, die_at="commit:before") == -9
    before = {path: path.read_bytes() for path in (folder / ".out.unfinished").rglob("*") if path.is_file()}
    kept = {name: (folder / name).read_text() for name in ("job.toml", "schema.toml", "table.csv")}
    n_drawn = len(draws(folder))
    for what, name, changed in (
        ("job", "job.toml", f"seed = 9\n{kept['job.toml']}"),
        ("schema", "schema.toml", f"# n\n{kept['schema.toml']}"),
        ("table", "table.csv", kept["table.csv"].rpartition("\n")[0].rpartition("\n")[0]),
    ):
        (folder / name).write_text(changed)
        (folder / "stderr.txt").unlink(missing_ok=True)
        assert driver.attempt(folder) == 2
        message = one_sentence(folder)
        assert f"of another {what}" in message and "--restart" in message
        assert {path: path.read_bytes() for path in before} == before
        (folder / name).write_text(kept[name])
    open_ledger(folder / "other.db").open("patients", unit="row", epsilon=10.0, n_units=900)
    (folder / "ledger.db").rename(folder / "kept.db")
    (folder / "ledger.db").symlink_to("other.db")  # by the same job
    (folder / "stderr.txt").unlink()
    assert driver.attempt(folder) == 2
    assert "of another ledger" in one_sentence(folder)
    (folder / "kept.db").replace(folder / "ledger.db")
    assert len(draws(folder)) == n_drawn
    assert driver.attempt(folder, arguments=[*RUN, "--restart"]) == 0
    (holding,) = open_ledger(folder / "ledger.db").holdings()
    assert holding.n_releases == 4
    assert_paid(folder)
    assert_whole(folder)


def test_a_copy_of_unfinished_work_is_not_taken_up(driver: Driver, workspace: Any) -> None:
    """Both would draw what is left to draw, under one reservation."""
    folder = prepared(workspace, "twice", generators=PRIVATE)
    assert driver.attempt(folder, die_at="noisy_max:after") == -9
    shutil.copytree(folder / ".out.unfinished", folder / ".copy.unfinished")
    assert driver.attempt(folder, arguments=["run", "job.toml", "--out", "copy", "--quiet"]) == 2
    assert "of another output" in one_sentence(folder)


@pytest.mark.slow
def test_a_copy_of_unfinished_work_draws_nothing_once_its_run_is_finished(driver: Driver, workspace: Any) -> None:
    only = {"generators": {"mst": PRIVATE["mst"]}}
    assert driver.attempt(prepared(workspace, "whole", **only)) == 0
    begun = [n for n, name in enumerate(moments(workspace.folder / "whole")) if name == "gaussian:before"]
    folder = prepared(workspace, "copied", **only)
    assert driver.attempt(folder, die_at=begun[2]) == -9
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
