"""Draws on disk: what is there is never drawn again, what was lost is told, a torn file never passes for a whole."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent, SelectionEvent, StabilityEvent
from synth.dp.noise_journal import Journal
from synth.dp.schedule import Schedule
from synth.errors import BudgetError

COUNTS = GaussianEvent("counts", 40.0, count=3)
REALS = GaussianEvent("means", 2.0, 0.5, whole=False)
CHOICE = SelectionEvent("pair", 0.5)
JOBS = StabilityEvent("jobs", 2.0, 12)
SCHEDULE = Schedule((COUNTS, REALS, CHOICE, JOBS), 1e-3)


def fit(path: Path, draws: int = 6) -> list[object]:
    """The first draws of a small fit, from a journal opened anew."""
    with Journal(path) as journal:
        budget = Budget(SCHEDULE, journal=journal)
        return [step() for step in steps(budget)[:draws]]


def steps(budget: Budget) -> list[Callable[[], object]]:
    return [
        lambda: budget.release(np.arange(12).reshape(3, 4), COUNTS).tolist(),
        lambda: budget.release(np.array([0.25, -1.5]), REALS).tolist(),
        lambda: budget.choose(np.array([0.0, 1.0, 3.0]), 1.0, CHOICE),
        lambda: budget.name_stable({"clerk": 400, "NA": 300, "spy": 1}, JOBS),
        lambda: budget.release(np.zeros(2, dtype=np.int64), COUNTS).tolist(),
        lambda: budget.release(np.zeros((0, 3), dtype=np.int64), COUNTS).tolist(),
    ]


def found(path: Path) -> tuple[int, tuple[str, ...]]:
    """How many values are on disk, and what was lost."""
    with Journal(path) as journal:
        return journal.n_persisted, tuple(record.what for record in journal.lost)


@pytest.mark.parametrize("done", range(7))
def test_a_second_start_goes_on_from_what_is_on_disk(tmp_path: Path, done: int) -> None:
    first = fit(tmp_path / "draws", done)
    assert found(tmp_path / "draws") == (done, ())
    whole = fit(tmp_path / "draws")
    assert whole[:done] == first
    assert fit(tmp_path / "draws") == whole
    assert found(tmp_path / "draws") == (6, ())


def test_a_file_cut_at_any_byte_gives_back_whole_values_or_names_the_lost_draw(tmp_path: Path) -> None:
    whole = fit(tmp_path / "draws")
    content = (tmp_path / "draws").read_bytes()
    begun = [line.startswith(b'{"begun"') for line in content.splitlines()]
    for cut in range(len(content)):
        (tmp_path / "cut").write_bytes(content[:cut])
        lines = content[:cut].count(b"\n")
        n_persisted, lost = found(tmp_path / "cut")
        assert n_persisted == sum(not b for b in begun[:lines])
        assert len(lost) == int(lines > 0 and begun[lines - 1])
        if cut % 97 == 0:
            assert fit(tmp_path / "cut")[:n_persisted] == whole[:n_persisted]


def test_a_lost_draw_stays_lost_until_it_is_settled(tmp_path: Path) -> None:
    def fails() -> object:
        raise OSError("the disk is full")

    for _ in range(2):
        with Journal(tmp_path / "draws") as journal, pytest.raises(OSError, match="full"):
            journal.once(COUNTS.record(), fails)
    assert found(tmp_path / "draws") == (0, ("counts", "counts"))
    with Journal(tmp_path / "draws") as journal:
        journal.settle()
    assert found(tmp_path / "draws") == (0, ())
    assert len(fit(tmp_path / "draws")) == 6


def test_work_that_is_not_the_same_is_refused(tmp_path: Path) -> None:
    fit(tmp_path / "draws")
    with Journal(tmp_path / "draws") as journal:
        other = Budget(Schedule((REALS,), 1e-3), journal=journal)
        with pytest.raises(BudgetError, match="not the same"):
            other.release(np.array([0.0]), REALS)


@pytest.mark.parametrize("content", ["{}\n", "[]\n", '{"value": 3}\n', "half a line\n", '{"settled": 2}\n', "\0\0\n"])
def test_a_file_that_is_no_journal_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "draws").write_text(content)
    with pytest.raises(BudgetError, match="is not a journal"):
        Journal(tmp_path / "draws")
    assert (tmp_path / "draws").read_text() == content


def test_a_journal_holds_no_exact_number_and_is_its_owners_alone(tmp_path: Path) -> None:
    with Journal(tmp_path / "draws") as journal:
        budget = Budget(SCHEDULE, journal=journal)
        budget.release(np.full(40, 123_456_789), COUNTS)
        budget.name_stable({"clerk": 400, "spy": 1}, JOBS)
    content = (tmp_path / "draws").read_text()
    assert "spy" not in content
    assert content.count("123456789") < 5
    assert (tmp_path / "draws").stat().st_mode & 0o077 == 0
