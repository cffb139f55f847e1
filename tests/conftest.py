"""Fixtures that every package's tests share."""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.reports.browsing import ARGUMENTS, CHROMIUM

# The same examples on every run: a test that fails does so for everybody; and no deadline, which a busy machine misses.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")

# Expressions of Ibis are many small objects that live on: collecting them anew takes a sixth of such a test.
gc.set_threshold(100_000, 20, 50)

SHARED = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_table() -> Callable[[str], Path]:
    """The path of one of the development tables, or a skip where they are absent."""

    def find(name: str) -> Path:
        path = SHARED / name
        if not path.exists():
            pytest.skip(f"the development table {name} is not on this machine")
        return path

    return find


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A real browser without a window."""
    if not CHROMIUM.exists():
        pytest.skip("Chromium is not on this machine")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield opened
        opened.close()
