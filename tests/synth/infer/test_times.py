"""Days, times of day and durations as people write them: read as what they are, written back in their own form."""

import datetime as dt
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import synth
from synth import infer_schema
from synth.schema.kinds import ClockColumn, DurationColumn
from synth.table import conform
from synth.table.restore_dtypes import present, texts

N = 200
RNG = np.random.default_rng(0)
STAMPS = pd.Series(pd.Timestamp("2006-01-01") + pd.to_timedelta(RNG.integers(0, 15 * 365 * 86_400_000, N), "ms"))
DAYS = STAMPS.dt.normalize()
ROOMY = RNG.lognormal(9.5, 1.2, N).astype(int)  # seconds, some of them more than a day


def cut(stamp: pd.Timestamp) -> str:
    return stamp.strftime("%Y-%m-%dT%H:%M:%S.%f").rstrip("0").rstrip(".")


def hours(seconds: int) -> str:
    hour, minute = divmod(seconds // 60, 60)
    return " ".join([f"{hour} h"] * (hour > 0) + [f"{minute} min"] * (minute > 0 or hour == 0))


@pytest.mark.parametrize(
    ("write", "kind", "form"),
    [
        (lambda t: t.strftime("%Y-%m-%dT%H:%M:%SZ"), "datetime", "%Y-%m-%dT%H:%M:%SZ"),
        (lambda t: f"{t.isoformat(timespec='milliseconds')}Z", "datetime", "%Y-%m-%dT%H:%M:%S.%3fZ"),
        (lambda t: f"{t.floor('s').isoformat()}+01:00", "datetime", "%Y-%m-%dT%H:%M:%S+01:00"),
        (lambda t: f"{t.floor('s').isoformat()}+05:30", "datetime", "%Y-%m-%dT%H:%M:%S+05:30"),
        (lambda t: f"{t.floor('s').isoformat(sep=' ')} UTC", "datetime", "%Y-%m-%d %H:%M:%S UTC"),
        (lambda t: t.isoformat(sep=" ", timespec="milliseconds"), "datetime", "%Y-%m-%d %H:%M:%S.%3f"),
        (lambda t: f"{t.isoformat(timespec='microseconds')}000", "datetime", "%Y-%m-%dT%H:%M:%S.%9f"),
        (lambda t: f"{cut(t)}Z", "datetime", "%Y-%m-%dT%H:%M:%S%.fZ"),
        (lambda t: t.tz_localize("UTC").tz_convert("America/Chicago").isoformat(timespec="seconds"), "datetime", None),
        (lambda t: t.strftime("%d/%b/%Y:%H:%M:%S +0000"), "datetime", "%d/%b/%Y:%H:%M:%S +0000"),
        (lambda t: t.normalize().tz_localize("Europe/Berlin").isoformat(), "date", "%Y-%m-%dT00:00:00%:z"),
        (lambda t: t.strftime("%a %b %d %Y"), "date", "%a %b %d %Y"),
        (lambda t: t.strftime("%Y%m%d.0"), "date", "%Y%m%d.0"),
        (lambda t: t.strftime("%Y%m"), "date", "%Y%m"),
        (lambda t: t.strftime("%Y%m%d%H%M%S"), "datetime", "%Y%m%d%H%M%S"),
        (lambda t: t.strftime("%y%m%d").lstrip("0"), "date", "%-y%m%d"),
        (lambda t: t.strftime("%d%m%Y").lstrip("0"), "date", "%-d%m%Y"),
        (lambda t: t.strftime("%H:%M:%S"), "clock", "%H:%M:%S"),
        (lambda t: t.strftime("%-I:%M %p"), "clock", "%-I:%M %p"),
        (lambda t: t.strftime("%H%M"), "clock", "%H%M"),
        (lambda t: str(int(t.strftime("%H%M"))), "clock", "%-H%M"),
        (lambda t: f"{int(t.strftime('%H%M'))}.0", "clock", "%-H%M.0"),
        (lambda t: f"{t.minute}:{t.second:02d}.{t.microsecond // 1000:03d}", "duration", "%-M:%S.%3f"),
    ],
)
def test_times_are_read_and_written_in_their_own_form(write: Callable, kind: str, form: str | None) -> None:
    _comes_back([write(stamp) for stamp in STAMPS], kind, form)


@pytest.mark.parametrize(
    ("write", "form"),
    [
        (lambda s: f"{s // 3600:02d}:{s // 60 % 60:02d}:{s % 60:02d}", "%H:%M:%S"),
        (hours, "[%-H h] [%-M min]"),
        (lambda s: f"{s // 3600}h{s // 60 % 60:02d}m", "%-Hh%Mm"),
        (lambda s: str(pd.Timedelta(s, "s")), "%-d days %H:%M:%S"),
        (lambda s: str(dt.timedelta(seconds=s)), "[%-d day(s),] %-H:%M:%S"),
        (lambda s: re.sub(r"(?<=\D)0[HMS]", "", f"PT{s // 3600}H{s // 60 % 60}M{s % 60}S"), "PT[%-HH][%-MM][%-SS]"),
    ],
)
def test_durations_are_read_and_written_in_their_own_form(write: Callable, form: str) -> None:
    _comes_back([write(int(seconds)) for seconds in ROOMY], "duration", form)


def _comes_back(written: list[str], kind: str, form: str | None) -> None:
    frame = pd.DataFrame({"x": written})
    schema = infer_schema(frame)
    column = schema.columns["x"]
    assert (column.kind, column.format) == (kind, form)
    assert texts(conform(frame, schema)["x"], column) == written


@pytest.mark.parametrize(
    "values",
    [
        DAYS.dt.strftime("%Y%m%d").astype(int),
        DAYS.dt.strftime("%Y%m%d").astype(float).where(np.arange(N) % 5 > 0),
        DAYS.dt.strftime("%Y%m").astype("Int64"),
        STAMPS.dt.strftime("%H%M").astype("int16"),
        pd.Series(pd.to_timedelta(ROOMY, "s")).where(np.arange(N) % 5 > 0),
        STAMPS.dt.time.where(np.arange(N) % 5 > 0, None),
        DAYS.dt.tz_localize("Europe/Brussels"),
    ],
)
def test_typed_times_come_back_in_their_dtype_and_from_parquet(values: pd.Series, tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": values})
    schema = infer_schema(frame)
    assert schema.columns["x"].kind in ("date", "clock", "duration")
    canonical = conform(frame, schema)
    pd.testing.assert_frame_equal(present(canonical, schema), frame)
    synth.write_table(canonical, tmp_path / "x.parquet", schema)
    pd.testing.assert_frame_equal(conform(synth.read_table(tmp_path / "x.parquet"), schema), canonical)


@pytest.mark.parametrize("numbers", [np.arange(N) % 47 * 50 + 50, np.arange(N) % 90 + 1930, np.arange(N) + 20_200_101])
def test_amounts_years_and_counters_are_no_times(numbers: np.ndarray) -> None:
    assert infer_schema(pd.DataFrame({"x": numbers})).columns["x"].kind in ("integer", "categorical", "identifier")


@pytest.mark.parametrize(
    ("column", "text", "value", "plain"),
    [
        (ClockColumn(bounds=(0, 1440), format="%-H%M", precision="min"), "2400", 2400, "24:00"),
        (ClockColumn(bounds=(0, 1440), format="%-H%M", precision="min"), "105", 105, "1:05:00"),
        (ClockColumn(bounds=(0, 1440), format="%I:%M %P", precision="min"), "12:05 am", 5, "0:05"),
        (DurationColumn(bounds=(-99, 99), format="%H:%M", precision="min"), "-01:30", -90, "-1:30"),
        (
            DurationColumn(bounds=(0, 99), format="[%-H hour(s)], [%-M minute(s)]", precision="min"),
            "1 minute",
            1,
            "0:01",
        ),
        (DurationColumn(bounds=(0, 99), format="PT[%-HH][%-MM]", precision="min"), "PT0M", 0, "0:00:00"),
    ],
)
def test_spans_read_their_own_form_and_that_of_python(column: ClockColumn, text: str, value: int, plain: str) -> None:
    assert column.parse(text) == column.parse(plain) == value
    assert (
        column.write(value) == text and column.canonical(column.plain(value)) == value and column.parse("soon") is None
    )
