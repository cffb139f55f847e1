"""Numbers and times as people write them are learned as such, and written back in their own form."""

import datetime as dt
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import synth
from synth import infer_schema
from synth.domain.discretizer import Discretizer
from synth.infer.amounts import form_of, read_amounts
from synth.schema import build_schema
from synth.schema.kinds import IntegerColumn
from synth.schema.kinds.base import Part
from synth.table import conform
from synth.table.conforming import present, texts

_RNG = np.random.default_rng(0)
_SIZES, _SIGNED = _RNG.lognormal(8, 1, 300), _RNG.normal(0, 3000, 300)
_PAIRS = _RNG.integers(60, 180, (300, 2))


def _european(value: float) -> str:
    return f"{value:,.2f}".translate(str.maketrans(",.", ".,"))


@pytest.mark.parametrize(
    ("texts", "form", "below", "above"),
    [
        ([f"${v:,.2f}" for v in _SIZES], "$#,##0.00", (), ()),
        ([f"(${-v:,.2f})" if v < 0 else f"${v:,.2f}" for v in _SIGNED], "$#,##0.00;($#,##0.00)", (), ()),
        ([f"{v:.2f}-" if v > 3000 else f"{v:.2f}" for v in _SIZES], "0.00;0.00-", (), ()),
        ([f"{v:.1f}%".replace(".", ",") for v in _SIGNED], "0,0%", (), ()),
        ([f"{_european(v)} €" for v in _SIZES], "#.##0,00 €", (), ()),
        ([f"{v:,.2f}".replace(",", "'") for v in _SIZES], "#'##0.00", (), ()),
        ([f"{int(v)} kg" for v in _SIZES], "0 kg", (), ()),
        ([f"{v / 1e6:.1f}M" if v > 1e6 else f"{v / 1e3:.0f}k" for v in _SIZES * 100], "0.0,,M;0,k;0", (), ()),
        (["<0.01" if v < 900 else f"{v / 1e4:.2f}" for v in _SIZES], "0.00", ("<0.01",), ()),
        (["trace", "<5", ">100", *map(str, range(5, 100))], None, ("trace", "<5"), (">100",)),
    ],
)
def test_numbers_are_read_and_written_back_in_their_own_form(
    texts: list[str], form: str | None, below: tuple[str, ...], above: tuple[str, ...]
) -> None:
    known = read_amounts(Counter(texts))
    assert known is not None
    assert (known.fields["format"], known.below, known.above) == (form, below, above)
    assert all(known.form.write(number) == text for text, number in known.numbers.items() if float(number))


@pytest.mark.parametrize(
    "texts",
    [
        [f"${v:,.2f}" for v in _SIZES] + ["ask Jane Roe 555-1234"],  # a note of one row
        [f"{n:05d}" for n in _PAIRS[:, 0]],  # zip codes
        [f"{a % 9}.{b % 9}.{a % 7}" for a, b in _PAIRS],  # versions
        [f"555-{a}" for a, _ in _PAIRS],
        [f"{'EIJV'[b % 4]}{a}" for a, b in _PAIRS],  # diagnoses
        [f"2020-{a % 12 + 1:02d}-{b % 28 + 1:02d}" for a, b in _PAIRS],
    ],
)
def test_codes_and_names_are_no_numbers(texts: list[str]) -> None:
    assert read_amounts(Counter(texts)) is None
    assert form_of(list(dict.fromkeys(texts))) is None


_RESULTS = [f"{v / 100:.{i % 3}f}" for i, v in enumerate(_SIZES)]  # of several tests, each with its own decimals


@pytest.mark.parametrize(
    ("odd", "sides"),
    [
        (["<0.1", "<0.5", "~3", ">=99.5"], (("~3", "<0.1", "<0.5"), (">=99.5",))),
        ([], None),
        (["<0.1", "trace"], None),
        ([f"<0.{n}" for n in range(1, 14)], None),  # too many different ones
        (["<0.1"] * len(_RESULTS), None),  # in too many rows
    ],
)
def test_limits_beside_numbers_of_more_decimals_or_fewer(odd: list[str], sides: tuple | None) -> None:
    known = read_amounts(Counter([*_RESULTS, *odd]))
    assert (known and (known.below, known.above)) == sides


@pytest.mark.parametrize(
    ("write", "form"),
    [
        (lambda a, b: f"{a}/{b}", "{}/{}"),
        (lambda a, b: f"[{a}, {a + b})", "[{}, {})"),
        (lambda a, b: f"POINT ({a / 7:.4f} -{b / 7:.4f})", "POINT ({} {})"),
        (lambda a, b: f"{a}-{b}", None),  # no range: the second is smaller now and then
        (lambda a, b: f"{a % 24:02d}:{b % 60:02d}", None),
    ],
)
def test_cells_of_several_numbers_have_a_form(write, form: str | None) -> None:
    texts = list(dict.fromkeys(write(a, b) for a, b in _PAIRS.tolist()))
    assert form_of(texts) == (form if form or "200" not in texts[0] else "{}/200")


def test_a_table_comes_back_as_people_wrote_it(tmp_path: Path) -> None:
    n = 400
    rng = np.random.default_rng(1)
    days = pd.to_datetime("2019-01-01") + pd.to_timedelta(rng.integers(0, 1500, n), "D")
    frame = pd.DataFrame({
        "price": [f"${v:,.2f}" for v in rng.lognormal(8, 1, n)],
        "lab": np.where(rng.random(n) < 0.1, "<5", rng.integers(5, 90, n).astype(str)),
        "pressure": [*[f"{a}/{b}" for a, b in _PAIRS], *["refused"] * 10, *[f"{b}/{a}" for a, b in _PAIRS[:90]]],
        "until": np.where(rng.random(n) < 0.3, "9999-12-31", days.strftime("%Y-%m-%d")),
        "income": np.where(rng.random(n) < 0.1, 9999999, rng.lognormal(10, 0.4, n).round(2)),
        "code": [f"D{n:03d}" for n in rng.integers(0, 50, n)],
        "page": [f"https://example.org/in/{a}" for a in rng.integers(0, 10**6, n)],
    })  # fmt: skip
    frame.to_csv(tmp_path / "in.csv", index=False)
    schema = synth.infer_schema(synth.read_table(tmp_path / "in.csv"))
    assert schema.columns["page"].is_personal
    assert [*schema.written] == [*frame.columns]
    model = synth.fit(synth.read_table(tmp_path / "in.csv"), schema, "independent")
    synth.write_table(model.sample(300, seed=1), tmp_path / "out.csv", schema)
    written = pd.read_csv(tmp_path / "out.csv", dtype=str, keep_default_na=False)
    assert written["price"].str.fullmatch(r"\$[\d,]+\.\d\d").all()
    assert written["pressure"].str.fullmatch(r"\d+/\d+|refused").all()
    lab = written["lab"]
    assert 0.03 < (lab == "<5").mean() < 0.2
    assert lab[lab != "<5"].astype(int).between(5, 89).all()
    income, ordinary = written["income"].astype(float), frame["income"].astype(float)
    assert not income.between(ordinary[ordinary < 9e6].max() * 1.01, 9999998).any()
    assert written["until"].str.fullmatch("9999-12-31|20(19|2[0-3])-.*").all()
    assert {"9999-12-31"} < {*written["until"]}


def test_values_beside_the_line_leave_no_gap_and_come_back() -> None:
    columns = {
        "n": {"kind": "integer", "bounds": [1, 90], "below": ["trace", "<5"], "above": [9999999, ">100"]},
        "d": {"kind": "date", "bounds": ["2020-01-01", "2021-01-01"], "above": ["9999-12-31"]},
        "r": {"kind": "real", "bounds": [0.0, 1.0], "below": [-999.0, "none"][:1], "missing": True},
    }
    schema = build_schema({"status": "declared", "columns": columns})
    frame = pd.DataFrame(
        {
            "n": ["trace", "<5", "9999999", ">100", "90"],
            "d": ["9999-12-31", "2021-01-01", "2020-01-01", "2020-05-05", "2020-05-06"],
            "r": ["-999", "0", "1", "0.5", None],
        }
    )
    known = conform(frame, schema)
    assert conform(known, schema).equals(known)
    n: IntegerColumn = schema.columns["n"]  # type: ignore[assignment]
    assert n.positions(known["n"]).tolist() == [-1, 0, 91, 92, 90]
    assert np.isnan(n.ordinary(known["n"])).tolist() == [True, True, True, True, False]
    assert schema.columns["d"].above == (dt.date(9999, 12, 31),)
    discretizer = Discretizer.by_schema(schema)
    assert discretizer.sizes["n"] == 90 + 4 + 2
    assert discretizer.labels("n")[:3] == ["trace", "<5", "1"]
    drawn = discretizer.decode(discretizer.encode(known), np.random.default_rng(0))
    assert drawn["n"].equals(known["n"])
    assert drawn["d"][0] == known["d"][0]
    assert drawn["r"][0] == -999.0


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"above": [12, 12]}, "name each value once"),
        ({"measure": True, "above": [99]}, "has no above"),
        ({"part": {"column": "c", "form": "{{}}", "place": 0}}, "no other brace"),
        ({"part": {"column": "c", "form": "{}/{}", "place": 2}}, "of which place is one"),
    ],
)
def test_values_beside_and_formats_are_checked(fields: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        IntegerColumn(bounds=(0, 10), **fields)


@pytest.mark.parametrize(
    ("form", "cell", "values"),
    [
        ("{}/{}", "1/2/3", ["1", "2/3"]),
        ("[{}, {})", "[1, 2)", ["1", "2"]),
        ("{} to {} to", "1 to 2 to to", ["1", "2 to"]),
        ("{}, {},", "1,", ["1,", "1,"]),  # one mark does not stand for two
        ("({} {} {} {} {})", "(" + " " * 5_000, ["(" + " " * 5_000] * 5),  # a pattern would take hours
    ],
)
def test_the_values_of_a_cell_stand_between_its_marks(form: str, cell: str, values: list[str]) -> None:
    assert [Part(column="c", form=form, place=rank).read(cell) for rank in range(len(values))] == values


def test_decimals_that_a_file_writes_stay() -> None:
    quarters = [n / 4 for n in range(300)]
    columns = {"x": [f"{n}.0" for n in range(300)], "y": [*map(str, quarters)], "z": [f"{n:g}" for n in quarters]}
    frame = pd.DataFrame(columns | {"c": [f"{n:.2f}" for n in quarters]})
    schema = synth.infer_schema(frame, constraints=False)
    known = conform(frame, schema)
    assert {name: texts(known[name], schema.columns[name]) for name in frame} == frame.to_dict("list")
    assert schema.columns["x"].dtype == "float64"


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
        (lambda t: f"{t.floor('s').isoformat()}+05:30", "datetime", "%Y-%m-%dT%H:%M:%S+05:30"),
        (lambda t: f"{t.floor('s').isoformat(sep=' ')} UTC", "datetime", "%Y-%m-%d %H:%M:%S UTC"),
        (lambda t: t.isoformat(sep=" ", timespec="milliseconds"), "datetime", "%Y-%m-%d %H:%M:%S.%3f"),
        (lambda t: f"{t.isoformat(timespec='microseconds')}000", "datetime", "%Y-%m-%dT%H:%M:%S.%9f"),
        (lambda t: f"{cut(t)}Z", "datetime", "%Y-%m-%dT%H:%M:%S%.fZ"),
        (lambda t: t.tz_localize("UTC").tz_convert("America/Chicago").isoformat(timespec="seconds"), "datetime", None),
        (lambda t: t.strftime("%d/%b/%Y:%H:%M:%S +0000"), "datetime", "%d/%b/%Y:%H:%M:%S +0000"),
        (lambda t: t.normalize().tz_localize("Europe/Berlin").isoformat(), "date", "%Y-%m-%dT00:00:00%:z"),
        (lambda t: t.strftime("%B %-d, %Y"), "date", "%B %-d, %Y"),
        (lambda t: t.strftime("%-m/%-d/%Y 0:00"), "date", "%-m/%-d/%Y 0:00"),
        (lambda t: t.strftime("%d.%m.%y"), "date", "%d.%m.%y"),
        (lambda t: t.strftime("%d-%b-%Y %H:%M"), "datetime", "%d-%b-%Y %H:%M"),
        (lambda t: t.strftime("%Y%m%d.0"), "date", "%Y%m%d.0"),
        (lambda t: t.strftime("%y%m%d").lstrip("0"), "date", "%-y%m%d"),
        (lambda t: t.strftime("%d%m%Y").lstrip("0"), "date", "%-d%m%Y"),
        (lambda t: t.strftime("%H:%M:%S"), "clock", "%H:%M:%S"),
        (lambda t: t.strftime("%-I:%M %p"), "clock", "%-I:%M %p"),
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
