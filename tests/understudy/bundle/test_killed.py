"""A run that is killed while its evidence is written and sealed leaves a sealed bundle when it is begun again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.understudy.conftest import Workspace, small_table
from tests.understudy.driving import SCRIPT, Driver, serving
from tests.understudy.test_resume import moments, prepared
from understudy.bundle.verification import Demand, verify

RUN = ["run", "job.toml", "--out", "out", "--quiet", "--sign-key", "release.key"]
JOB: dict[str, Any] = {"generators": {"plain": {"generator": "independent"}}, "total": None, "release": "plain"}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with serving(tmp_path_factory.mktemp("key"), SCRIPT) as process:
        yield Driver(process)


def begun(folder: Path, name: str, key: Path) -> Path:
    workspace = Workspace(folder)
    if not (folder / "table.csv").exists():
        workspace.write_table(small_table())
    place: Path = prepared(workspace, name, **JOB)
    (place / "release.key").write_bytes(key.read_bytes())
    (place / "release.key").chmod(0o600)
    return place


def names(out: Path) -> set[str]:
    return {str(path.relative_to(out)) for path in out.rglob("*")}


def killed_at(driver: Driver, whole: Path, place: Path, n: int) -> None:
    """A run that dies at a moment and is begun again leaves what the whole one left."""
    assert driver.attempt(place, arguments=RUN, die_at=n) == -9
    if (place / "out").exists():
        assert verify(place / "out", Demand()).problems == ()
    driver.attempt(place, arguments=RUN)
    assert verify(place / "out", Demand()).problems == ()
    assert names(place / "out") == names(whole / "out")


@pytest.fixture(scope="module")
def whole(driver: Driver, tmp_path_factory: pytest.TempPathFactory, key: Path) -> Path:
    place = begun(tmp_path_factory.mktemp("whole"), "whole", key)
    assert driver.attempt(place, arguments=RUN) in (1, 3), (place / "stderr.txt").read_text()
    return place


@pytest.mark.statistical
def test_a_run_that_is_killed_between_its_seal_and_its_name_leaves_a_sealed_bundle(
    driver: Driver, whole: Path, tmp_path: Path, key: Path
) -> None:
    assert verify(whole / "out", Demand()).problems == ()
    assert (whole / "out" / "to-hand-on" / "manifest.json.sig").exists()
    rename = max(n for n, name in enumerate(moments(whole)) if name == "replace:before")
    killed_at(driver, whole, begun(tmp_path, "killed", key), rename)


@pytest.mark.slow
def test_a_run_that_is_killed_anywhere_in_its_second_half_leaves_a_sealed_bundle(
    driver: Driver, whole: Path, tmp_path: Path, key: Path
) -> None:
    passed = moments(whole)
    for n in range(len(passed) // 2, len(passed), 9):
        killed_at(driver, whole, begun(tmp_path, f"killed{n}", key), n)
