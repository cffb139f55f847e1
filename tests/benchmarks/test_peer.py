"""Peers that learn from a table as it is: what they get, what comes back, and what is said of those that fail."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import synth
from benchmarks import peer, shelf
from benchmarks.runs import NOT_INSTALLED
from synth.schema import Schema

SCRIPTS = Path(peer.__file__).parent / "peers"
SHUFFLED = f"""
import json, sys
from pathlib import Path
sys.path.insert(0, {str(SCRIPTS)!r})
from evaluated import measured, read_csv, read_task, write_result
folder, made = Path(sys.argv[1]), []
task = read_task(folder)
train = read_csv(folder / "train.csv", [name for name, one in task["columns"].items() if one["kind"] != "real"])
cost = measured(lambda: made.append(train.sample(frac=1, random_state=task["seed"])))
made[0].to_csv(folder / "synthetic.csv", index=False)
write_result(folder, {{**cost, "epsilon": task.get("epsilon", 0.0)}}, ["pandas"])
"""
"""A peer that gives the real rows back in another order."""


def table(n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    days = pd.to_datetime("2019-06-01") + pd.to_timedelta(rng.integers(0, 200, n), "D")
    times = pd.to_datetime("2021-01-01") + pd.to_timedelta(rng.integers(0, 10**7, n), "s")
    absent = rng.random(n) < 0.2
    return pd.DataFrame({
        "person": [f"P{i:05d}" for i in range(n)],
        "day": pd.Series(days.strftime("%d.%m.%Y")).mask(absent),
        "time": times.strftime("%Y-%m-%dT%H:%M:%S"),
        "zoned": times.tz_localize("UTC").strftime("%Y-%m-%dT%H:%M:%S+00:00"),
        "code": pd.Series(np.array(["007", "n/a", "b"])[rng.integers(3, size=n)]).mask(absent),
        "count": pd.Series(rng.integers(0, 900, n)).mask(rng.random(n) < 0.1),
        "amount": rng.normal(size=n).round(3),
        "target": rng.integers(2, size=n),
    })  # fmt: skip


@pytest.fixture
def read(tmp_path: Path) -> tuple[pd.DataFrame, Schema]:
    table().to_csv(tmp_path / "made.csv", index=False)
    frame = pd.read_csv(tmp_path / "made.csv", keep_default_na=False, na_values=[""])
    schema = synth.infer_schema(frame, target="target")
    return frame, synth.declare_schema(schema, n_units=len(frame), dataset="made")


def install(monkeypatch: pytest.MonkeyPatch, script: Path, content: str, python: str = sys.executable) -> None:
    script.write_text(content)
    monkeypatch.setitem(peer.TABLE_PEERS, "fake", peer.TablePeer(Path(python), script))


def test_a_table_with_gaps_and_times_comes_back_as_it_was(
    read: tuple[pd.DataFrame, Schema], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, schema = read
    kinds = {schema.columns[name].kind for name in schema.learned}
    assert kinds == {"date", "datetime", "categorical", "integer", "real"}
    install(monkeypatch, tmp_path / "fake.py", SHUFFLED)
    run = peer.run_table_peer("fake", frame, schema, {}, 3, 60.0)
    assert run.synthetic is not None, run.failure
    expected = frame[list(schema.learned)].sample(frac=1, random_state=3).reset_index(drop=True)
    pd.testing.assert_frame_equal(shelf._as_read(run.synthetic, frame, schema), expected)
    assert run.facts["epsilon"] == 0.0
    assert run.facts["peak_mib"] > 10
    assert run.versions is not None and set(run.versions) == {"pandas", "python"}


def test_a_time_beyond_the_bounds_goes_to_the_nearest(read: tuple[pd.DataFrame, Schema]) -> None:
    _, schema = read
    days = peer._from_iso(pd.Series(["1999-01-01", None, "2099-01-01 00:00:00"]), "day", schema)
    low, high = schema.columns["day"].bounds  # type: ignore[union-attr]
    assert days.tolist() == [low.strftime("%d.%m.%Y"), None, high.strftime("%d.%m.%Y")]


def test_a_peer_is_measured_in_its_own_process_and_told_its_epsilon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table().to_csv(tmp_path / "made.csv", index=False)
    spending = SHUFFLED.replace("lambda: ", "lambda: sum(range(20_000_000)) and ") + "assert task['epsilon'] == 2.0\n"
    install(monkeypatch, tmp_path / "fake.py", spending)
    options = shelf._options([str(tmp_path), "--point", "fake:2", "0"])
    figures = shelf._point(options)
    assert figures["tv3"] == 0.0
    assert figures["cpu_s"] > 0.1
    assert figures["versions"]["python"]
    json.dumps(figures)


def test_a_peer_that_is_not_installed_is_a_result_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table().to_csv(tmp_path / "made.csv", index=False)
    install(monkeypatch, tmp_path / "fake.py", SHUFFLED, python=str(tmp_path / "no environment" / "python"))
    figures = shelf._point(shelf._options([str(tmp_path), "--point", "fake", "0"]))
    assert figures == {"failure": f"fake is {NOT_INSTALLED}"}
    assert shelf._is_to_do(figures)
    assert shelf._is_to_do(None)
    assert not shelf._is_to_do({"failure": "stopped after 60 s"})
    assert not shelf._is_to_do({"tv3": 0.1})


@pytest.mark.parametrize(
    ("content", "limit_s", "failure"),
    [
        ("raise ValueError('too few rows')", 60.0, "ValueError: too few rows"),
        ("import time; time.sleep(60)", 0.5, "stopped after 0 s"),
    ],
)
def test_a_peer_that_fails_says_why(
    content: str,
    limit_s: float,
    failure: str,
    read: tuple[pd.DataFrame, Schema],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, tmp_path / "fake.py", content)
    run = peer.run_table_peer("fake", *read, {}, 0, limit_s)
    assert run.synthetic is None
    assert run.failure is not None and failure in run.failure


def test_every_peer_has_a_script_and_an_environment_that_is_made() -> None:
    made = (SCRIPTS.parent.parent / "Makefile").read_text().partition("PEERS := ")[2].splitlines()[0].split()
    for one in peer.TABLE_PEERS.values():
        assert one.script.exists()
        assert one.python.relative_to(peer.ENVIRONMENTS).parts[0] in made
