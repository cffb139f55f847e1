"""`understudy batch` from start to end, and what a second start takes for finished."""

import errno
import json
import os
from typing import Any

import pytest

from understudy.batch.jobs import listed, uncounted
from understudy.batch.run import _rests_on_expired_waiver
from understudy.bundle.keys import load_signer, make_keys


def start(workspace: Any, jobs: Any, *arguments: object) -> Any:
    names = [path for path in sorted(jobs.folder.glob("*.toml")) if path.name not in ("schema.toml", "policy.toml")]
    return workspace.run("batch", *names, "--out", jobs.out, *arguments)


def test_a_second_start_leaves_alone_what_is_finished_and_nothing_else(workspace: Any, jobs: Any) -> None:
    """One real batch, and what may have changed before the next start of it."""
    jobs.write("one", epsilon=None, policy="policy.toml")
    (jobs.folder / "policy.toml").write_text(POLICY)
    (jobs.folder / "bad.toml").write_text("seed = 1")
    first = start(workspace, jobs, "--workers", 2, "--json")
    assert first.exit_code == first.json["exit_code"] == 2
    assert jobs.states == {"bad": "bad input", "one": "no verdict"}
    (jobs.folder / "bad.toml").unlink()
    second = start(workspace, jobs, "--json")
    assert second.exit_code == 0
    (job,) = second.json["jobs"]
    assert job["finished_earlier"]
    assert json.loads((jobs.out / "summary.json").read_text()) == second.json
    before = content(jobs)
    for change in ("one.toml", "schema.toml", "policy.toml", "table.csv"):
        path = jobs.folder / change
        kept = (path.read_bytes(), path.stat())
        path.write_bytes(kept[0] + b"\n")
        os.utime(path, ns=(kept[1].st_atime_ns, kept[1].st_mtime_ns))  # as a copy that keeps times would
        third = start(workspace, jobs)
        assert third.exit_code == 2, change
        what = {"one.toml": "job", "table.csv": "table"}.get(change, path.stem)
        assert f"made from another {what};" in third.stderr
        path.write_bytes(kept[0])
        os.utime(path, ns=(kept[1].st_atime_ns, kept[1].st_mtime_ns))
    assert start(workspace, jobs, "--quiet").exit_code == 0
    result = (jobs.folder / "table.csv").stat()
    times = (result.st_atime_ns, result.st_mtime_ns)
    os.utime(jobs.folder / "table.csv", ns=(0, 0))  # a clock that was set back
    assert "made from another table;" in start(workspace, jobs).stderr
    os.utime(jobs.folder / "table.csv", ns=times)
    table = jobs.out / "one" / "synthetic" / "independent.csv"
    kept_rows = table.read_bytes()
    table.write_bytes(kept_rows.replace(b"North", b"South", 1))
    assert "and cannot be relied upon: synthetic/independent.csv" in start(workspace, jobs).stderr
    table.write_bytes(kept_rows)
    (jobs.out / "one" / "report.html").unlink()
    assert "and cannot be relied upon: report.html" in start(workspace, jobs).stderr
    (jobs.out / "one" / "report.html").write_bytes(before[str(jobs.out / "one" / "report.html")])
    (jobs.out / "one" / "manifest.json").unlink()
    assert "no run left it so" in start(workspace, jobs).stderr
    assert {name: text for name, text in before.items() if not name.endswith("manifest.json")} == content(jobs)


@pytest.mark.parametrize(("until", "speaks_against"), [("2000-01-01", True), ("9999-12-31", False)])
def test_a_verdict_that_rests_on_an_expired_waiver_is_not_passed_on(until: str, speaks_against: bool) -> None:
    waived = {"waived": True, "waiver": {"until": until}}
    kept_rows = {"waived": False, "waiver": None}
    verdict = {"release": "a", "candidates": [{"candidate": "a", "findings": [kept_rows, waived]}]}
    assert _rests_on_expired_waiver(verdict) == speaks_against
    assert not _rests_on_expired_waiver({**verdict, "release": "b"})
    assert _rests_on_expired_waiver({"candidates": 3})


def content(jobs: Any) -> dict[str, bytes]:
    result = (path for path in (jobs.out / "one").rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in result}


POLICY = """
name = "own"
version = 1
audience = "whoever tests"

[[rules]]
measure = "privacy.multiset"
limit = 0.05
why = "No copy of the table."
"""


def refused(ran: Any, jobs: Any) -> None:
    """One clear sentence, exit code 2, and no job begun."""
    assert ran.exit_code == 2
    assert ran.stderr.count("\n") == 1
    assert ran.stderr.startswith("Error: ")
    assert str(jobs.out) in ran.stderr
    assert not (jobs.out / "one").exists()
    assert not (jobs.out / "one.log").exists()


@pytest.mark.parametrize(
    ("what", "there"),
    [("pathlib.Path.mkdir", False), ("filelock.FileLock.acquire", True), ("pathlib.Path.unlink", True)],
)
def test_a_folder_that_nobody_may_write_to_is_one_sentence(
    workspace: Any, jobs: Any, monkeypatch: pytest.MonkeyPatch, what: str, there: bool
) -> None:
    """As of a file system that is mounted to be read: to make the folder, to lock it, to remove the older summary."""
    jobs.write("one")
    if there:
        (jobs.out / ".batch" / "locks").mkdir(parents=True)

    def closed(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(jobs.out))

    with monkeypatch.context() as patched:
        patched.setattr(what, closed)
        ran = start(workspace, jobs)
    refused(ran, jobs)
    assert "Read-only file system" in ran.stderr


def forked(batches: Any, jobs: Any, *arguments: object) -> tuple[int, list[str]]:
    """A batch whose jobs are forks, which load nothing: its exit code, and what it said."""
    (jobs.folder / "said.txt").unlink(missing_ok=True)
    names = sorted({path.name for path in jobs.folder.glob("*.toml")} - {"schema.toml", "policy.toml"})
    return batches.run(jobs, *names, *arguments), (jobs.folder / "said.txt").read_text().splitlines()


def test_what_was_finished_earlier_without_the_key_is_said_not_to_be_signed(batches: Any, jobs: Any) -> None:
    """The seal of an output is not made anew; what this start makes is signed."""
    make_keys(jobs.folder / "a.key", {})
    signer = load_signer(jobs.folder / "a.key", {})
    jobs.write("one", epsilon=None)
    assert forked(batches, jobs, "--quiet") == (0, [])
    assert [job["signed_by"] for job in jobs.summary["jobs"]] == [None]
    jobs.write("two", epsilon=None)
    code, lines = forked(batches, jobs, "--sign-key", jobs.folder / "a.key")
    assert code == 0, lines
    assert "Warning: finished earlier, and not signed by the key of --sign-key: one." in lines
    assert {job["job"]: job["signed_by"] for job in jobs.summary["jobs"]} == {"one": None, "two": signer.fingerprint}
    envelope = json.loads((jobs.out / "two" / "manifest.json.sig").read_text())
    assert envelope["signatures"][0]["keyid"] == signer.fingerprint


def test_a_batch_that_says_nothing_but_errors_says_those(batches: Any, jobs: Any) -> None:
    """One line for each job that failed, whatever its answer; none for one that is done."""
    (jobs.folder / "policy.toml").write_text(POLICY)  # of a measure that these jobs do not take
    jobs.write("good", epsilon=None)
    jobs.write("open", epsilon=None, release="independent", policy="policy.toml")
    jobs.write("typo", epsilon=None, generators={"independent": {"epsilom": 1}})
    code, (first, second) = forked(batches, jobs, "--quiet")
    assert code == 2
    assert first.startswith("Error: typo: bad input: ") and "epsilom" in first
    assert second.startswith("Error: open: INCONCLUSIVE after ")
    assert "privacy.multiset INCONCLUSIVE: " in second


def test_private_releases_of_one_dataset_outside_a_ledger_are_added_up(jobs: Any) -> None:
    paths = [jobs.write("one", epsilon=0.5), jobs.write("none", epsilon=None)]
    for name, epsilon in (("two", 0.5), ("three", 1.0)):
        path = jobs.write(name, epsilon=epsilon)
        path.write_text(path.read_text().replace('[ledger]\nurl = "ledger.db"\n', ""))
        paths.append(path)
    (warning,) = uncounted(listed(paths, jobs.out))
    assert "2 jobs make private releases of dataset 'patients' outside a ledger" in warning
    assert "two, three come to epsilon=1.5 together by basic composition" in warning
