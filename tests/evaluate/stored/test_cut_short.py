"""Measures that a time limit or a full disk cuts short: the next give their numbers, and nothing goes on working."""

import resource
import time
from collections.abc import Callable
from typing import Any

import pytest

from evaluate import engine
from evaluate.result import Candidate, Estimate
from evaluate.tables import MetricResult, Real, Tables
from synth.errors import PlaceError
from tests.evaluate.stored.conftest import Put, schema_of, sides

ON_POSTGRES = pytest.mark.parametrize("put", ["postgres"], indirect=True)
ON_DUCKDB = pytest.mark.parametrize("put", ["duckdb"], indirect=True)
NUMBERS = ["fidelity.columns", "privacy.copies"]


def prepared(put: Put, sample_rows: int = 400) -> Tables:
    stored = put(sides())
    real = Real.prepare_stored(
        stored["train"], stored["holdout"], schema_of(), outside="clamp", sample_rows=sample_rows
    )
    return real.beside_stored(stored["synthetic"])


def endless(tables: Tables) -> MetricResult:
    """A query that does not end by itself."""
    assert tables.stored is not None
    found = tables.stored.train.rows.select("age")
    for _ in range(5):
        found = found.cross_join(tables.stored.train.rows.select("age").view()).select(age=found["age"])
    tables.stored.train.place.number(found.count())
    raise AssertionError("it ended")


def forgotten(tables: Tables) -> MetricResult:
    """A query that was sent, and of which the driver knows nothing."""
    assert tables.stored is not None
    tables.stored.train.place.connection.con.pgconn.send_query(b"SELECT pg_sleep(600)")
    time.sleep(600)
    raise AssertionError("it ended")


def cut_short(tables: Tables, monkeypatch: pytest.MonkeyPatch, work: Callable[[Tables], MetricResult]) -> Candidate:
    with monkeypatch.context() as patch:
        patch.setattr("evaluate.validity.validity.measure", work)
        return engine.measure_candidate("a", tables, measures=["validity"], time_limit_s=0.7)


def reasons(candidate: Candidate) -> set[str]:
    return {failure.reason for failure in candidate.failures} - {"skipped", "not applicable"}


def assert_nothing_is_at_work(tables: Tables) -> None:
    assert tables.stored is not None
    connection = tables.stored.train.place.connection
    active = connection.table("pg_stat_activity", database="pg_catalog")
    sleeping = active.filter(active["query"].contains("pg_sleep") | active["query"].contains("CROSS JOIN"))
    sleeping = sleeping.filter((sleeping["state"] == "active") & ~sleeping["query"].contains("pg_stat_activity"))
    ended = time.monotonic() + 10
    while (n := int(connection.to_pyarrow(sleeping.count().name("n").as_table()).column(0)[0].as_py())) > 0:
        assert time.monotonic() < ended, n
        time.sleep(0.1)


def test_a_query_that_takes_too_long_is_timed_out_and_the_next_measures_give_their_numbers(
    put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = prepared(put)
    expected = engine.measure_candidate("a", tables, measures=NUMBERS)
    assert reasons(cut_short(tables, monkeypatch, endless)) == {"timed out"}
    again = engine.measure_candidate("a", tables, measures=NUMBERS)
    assert reasons(again) == set() and again.estimates == expected.estimates


@ON_POSTGRES
@pytest.mark.parametrize("work", [pytest.param(endless, marks=pytest.mark.slow), forgotten])
def test_nothing_goes_on_working_on_a_server_after_the_time_is_up(
    put: Put, monkeypatch: pytest.MonkeyPatch, work: Callable[[Tables], MetricResult]
) -> None:
    tables = prepared(put)
    expected = engine.measure_candidate("a", tables, measures=NUMBERS)
    assert reasons(cut_short(tables, monkeypatch, work)) == {"timed out"}
    assert_nothing_is_at_work(tables)
    again = engine.measure_candidate("a", tables, measures=NUMBERS)
    assert reasons(again) == set() and again.estimates == expected.estimates


@ON_DUCKDB
def test_a_full_disk_is_no_finding_about_a_measure(put: Put) -> None:
    tables = prepared(put)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20 << 10, before[1]))
    try:
        with pytest.raises(PlaceError, match="disk of the temporary files is full"):
            engine.measure_candidate("a", tables, measures=["validity", *NUMBERS])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    again: Any = engine.measure_candidate("a", tables, measures=["validity", *NUMBERS])
    assert reasons(again) == set() and isinstance(again.find("privacy.copies"), Estimate)
