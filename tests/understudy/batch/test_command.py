"""`understudy batch` from start to end, and what a second start takes for finished."""

import json
import os
from typing import Any

import pytest

from synth.dp.ledger import open_ledger
from understudy.batch.jobs import listed, uncounted
from understudy.batch.run import _rests_on_expired_waiver
from understudy.bundle.keys import make_keys


def start(workspace: Any, jobs: Any, *arguments: object) -> Any:
    names = [path for path in sorted(jobs.folder.glob("*.toml")) if path.name not in ("schema.toml", "policy.toml")]
    return workspace.run("batch", *names, "--out", jobs.out, *arguments)


def test_a_second_start_neither_makes_nor_pays_again_nor_signs_what_is_finished(workspace: Any, jobs: Any) -> None:
    """One real batch, and what may have changed before the next start of it."""
    jobs.write("one", epsilon=None, policy="policy.toml")
    jobs.write("paid")
    (jobs.folder / "policy.toml").write_text(POLICY)
    (jobs.folder / "bad.toml").write_text("seed = 1")
    first = start(workspace, jobs, "--workers", 2, "--json")
    assert first.exit_code == first.json["exit_code"] == 2
    assert jobs.states == {"bad": "bad input", "one": "no verdict", "paid": "no verdict"}
    (jobs.folder / "bad.toml").unlink()
    jobs.write("two", epsilon=None)
    signer = make_keys(jobs.folder / "a.key", {})
    second = start(workspace, jobs, "--json", "--sign-key", jobs.folder / "a.key")
    assert second.exit_code == 0 and json.loads((jobs.out / "summary.json").read_text()) == second.json
    assert "finished earlier, and not signed by the key of --sign-key: one, paid." in second.stderr
    signed = [(job["job"], job["finished_earlier"], job["signed_by"]) for job in second.json["jobs"]]
    assert signed == [("one", True, None), ("paid", True, None), ("two", False, signer.fingerprint)]
    (holding,) = open_ledger(jobs.folder / "ledger.db").holdings()
    assert holding.n_releases == 1
    (jobs.folder / "paid.toml").unlink()
    (jobs.folder / "two.toml").unlink()
    before = content(jobs)
    for change, what in (("one.toml", "job"), ("policy.toml", "policy"), ("table.csv", "table")):
        path = jobs.folder / change
        kept = (path.read_bytes(), path.stat())
        path.write_bytes(kept[0] + b"\n")
        os.utime(path, ns=(kept[1].st_atime_ns, kept[1].st_mtime_ns))  # as a copy that keeps times would
        third = start(workspace, jobs)
        assert third.exit_code == 2 and f"made from another {what};" in third.stderr
        path.write_bytes(kept[0])
        os.utime(path, ns=(kept[1].st_atime_ns, kept[1].st_mtime_ns))
    table = jobs.out / "one" / "synthetic" / "independent.csv"
    kept_rows = table.read_bytes()
    table.write_bytes(kept_rows.replace(b"North", b"South", 1))
    assert "and cannot be relied upon: synthetic/independent.csv" in start(workspace, jobs).stderr
    table.write_bytes(kept_rows)
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


def test_private_releases_of_one_dataset_outside_a_ledger_are_added_up(jobs: Any) -> None:
    paths = [jobs.write("one", epsilon=0.5), jobs.write("none", epsilon=None)]
    for name, epsilon in (("two", 0.5), ("three", 1.0)):
        path = jobs.write(name, epsilon=epsilon)
        path.write_text(path.read_text().replace('[ledger]\nurl = "ledger.db"\n', ""))
        paths.append(path)
    (warning,) = uncounted(listed(paths, jobs.out))
    assert "2 jobs make private releases of dataset 'patients' outside a ledger" in warning
    assert "two, three come to epsilon=1.5 together by basic composition" in warning
