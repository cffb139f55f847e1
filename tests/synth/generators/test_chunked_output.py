"""Rows written in files are one table, whoever made them, which is whole or not there."""

import dataclasses
import errno
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from synth.errors import JobError, ModelError, OutputError, SchemaError
from synth.generators import registry
from synth.generators.models.model import Model
from synth.generators.models.postprocess import write_rows
from synth.schema import Schema, build_schema
from synth.table import conform, violations

ROWS, ROWS_A_FILE, SEED = 900, 100, 5

VISITS: dict[str, Any] = {
    "status": "declared",
    "n_units": 400,
    "entity": "who",
    "max_rows_per_unit": 4,
    "constant_in_entity": ["town", "name"],
    "columns": {
        "row": {"kind": "identifier", "template": "R-#####"},
        "who": {"kind": "identifier", "bounds": [1000, 9999]},
        "name": {"kind": "personal", "personal": "name"},
        "mail": {"kind": "personal", "personal": "email", "unique": True, "missing": True, "missing_share": 0.2},
        "card": {"kind": "personal", "personal": "card_number", "unique": True},
        "town": {"kind": "categorical", "categories": ["a", "b", "c"]},
        "day": {"kind": "integer", "bounds": [1, 60]},
        "from": {"kind": "date", "bounds": ["2020-01-01", "2020-03-31"]},
        "to": {"kind": "date", "bounds": ["2020-01-01", "2020-03-31"], "missing": True},
    },
    "constraints": [{"kind": "unique", "columns": ["who", "day"]}, {"kind": "inequality", "low": "from", "high": "to"}],
}
SHARES = np.array([0.2, 0.3, 0.1, 0.4])


@pytest.fixture(scope="module")
def visits() -> Schema:
    return build_schema(VISITS)


@pytest.fixture(scope="module")
def model(visits: Schema) -> Model:
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(400), rng.choice(4, 400, p=SHARES) + 1)
    n = len(who)
    start = np.datetime64("2020-01-01", "us") + rng.integers(0, 60, n) * np.timedelta64(1, "D")
    end = pd.Series(start + rng.integers(0, 30, n) * np.timedelta64(1, "D")).mask(rng.random(n) < 0.1)
    frame = pd.DataFrame({
        "row": [f"R-{i:05d}" for i in range(n)], "who": who + 1000, "name": "Ann", "mail": None,
        "card": "4242 4242 4242 4242", "town": rng.choice(["a", "b", "c"], 400, p=[0.6, 0.3, 0.1])[who],
        "day": rng.integers(1, 61, n), "from": start, "to": end,
    })  # fmt: skip
    return registry.generator("mst").fit_rows(frame, visits, seed=0)


@pytest.fixture(scope="module")
def whole(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of nine files, written without an interruption."""
    out = tmp_path_factory.mktemp("whole") / "out"
    write_rows(model, out, ROWS, seed=SEED, rows_a_file=ROWS_A_FILE)
    return out


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def read(folder: Path) -> list[pd.DataFrame]:
    return [pq.read_table(path).to_pandas() for path in files(folder)]


def beside(out: Path) -> list[str]:
    """What stands beside an output, hidden or not."""
    return sorted(path.name for path in out.parent.iterdir() if path != out)


def test_the_folder_holds_files_of_one_table_and_nothing_else(model: Model, whole: Path, visits: Schema) -> None:
    assert [path.name for path in files(whole)] == [f"part-{i:05d}.parquet" for i in range(9)]
    assert beside(whole) == []
    tables = [pq.read_table(path) for path in files(whole)]
    assert {table.num_rows for table in tables} == {100}
    assert all(table.schema.equals(tables[0].schema) for table in tables)
    together = conform(pd.concat(read(whole), ignore_index=True), visits)
    assert violations(together, visits) == []
    assert list(together.columns) == list(visits.kept)


def test_names_numbers_and_keys_do_not_repeat_from_file_to_file(whole: Path) -> None:
    together = pd.concat(read(whole), ignore_index=True)
    assert together["row"].is_unique
    assert together["card"].is_unique
    assert together["mail"].dropna().is_unique
    assert 0.1 < together["mail"].isna().mean() < 0.3
    assert not together.duplicated(["who", "day"]).any()


def test_an_entity_has_all_of_its_rows_in_one_file(whole: Path) -> None:
    frames = read(whole)
    owners = [set(frame["who"]) for frame in frames]
    assert sum(map(len, owners)) == len(set.union(*owners))
    together = pd.concat(frames)
    assert len(together[["who", "town", "name"]].drop_duplicates()) == together["who"].nunique()


def narrow(*, unique: bool, **columns: Any) -> Schema:
    known: dict[str, Any] = {
        "store": {"kind": "categorical", "categories": ["a", "b"]},
        "day": {"kind": "integer", "bounds": [1, 60]},
        **columns,
    }
    keys = [{"kind": "unique", "columns": ["store", "day"]}] if unique else []
    return build_schema({"status": "declared", "columns": known, "constraints": keys})


def plain(schema: Schema) -> Model:
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {"store": rng.choice(["a", "b"], 120, p=[0.8, 0.2]), "day": np.arange(120) % 60 + 1}
    columns |= {"id": [f"{'AB'[i // 100]}{i % 100:02d}" for i in range(120)], "mail": "Lee"}
    frame = pd.DataFrame({name: columns[name] for name in schema.kept})
    return registry.generator("independent").fit(frame, schema.model_copy(update={"constraints": ()}), seed=0)


def test_a_key_without_an_entity_holds_across_files_down_to_its_last_value(tmp_path: Path) -> None:
    schema = narrow(unique=True)
    model: Any = dataclasses.replace(plain(schema), schema=schema)  # type: ignore[type-var]
    written = write_rows(model, tmp_path / "out", 120, seed=0, rows_a_file=30)
    together = pd.concat(read(tmp_path / "out"))
    assert len(together) == 120
    assert not together.duplicated(["store", "day"]).any()
    assert written.n_rejected is not None
    assert written.n_rejected > 0
    with pytest.raises(ModelError, match="there are 120 values for rows=121; ask for fewer rows"):
        write_rows(model, tmp_path / "more", 121, seed=0, rows_a_file=30)
    assert beside(tmp_path / "out") == []


def two_rows_each(template: str) -> Model:
    """Entities of one or two rows, as many of each, and 1.5 on average."""
    columns = {"who": {"kind": "identifier", "template": template}, "day": {"kind": "integer", "bounds": [1, 60]}}
    schema = build_schema({"status": "declared", "entity": "who", "max_rows_per_unit": 2, "columns": columns})
    who = np.repeat(np.arange(40), np.arange(40) % 2 + 1)
    frame = pd.DataFrame({"who": [f"{template[0]}-{i}" for i in who], "day": np.arange(len(who)) % 60 + 1})
    return registry.generator("independent").fit(frame, schema, seed=0)


def test_too_few_names_are_refused_before_any_row_is_drawn_where_that_can_be_known(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="room for 1000 values, too few for this table"):
        write_rows(two_rows_each("P-###"), tmp_path / "out", 2001, seed=0, rows_a_file=100, progress=stopping(1))
    rows = plain(narrow(unique=False, id={"kind": "identifier", "template": "A##"}))
    with pytest.raises(SchemaError, match="room for 2600 values, too few for this table"):
        write_rows(rows, tmp_path / "out", 2601, seed=0, rows_a_file=100, progress=stopping(1))
    cards = plain(narrow(unique=False, mail={"kind": "personal", "personal": "phone", "template": "#", "unique": True}))
    with pytest.raises(SchemaError, match="too few different values"):
        write_rows(cards, tmp_path / "out", 11, seed=0, rows_a_file=5, progress=stopping(1))
    assert list(tmp_path.iterdir()) == []


def stopping(at: int) -> Callable[[str, float | None], None]:
    """A `Progress` that ends the work as Ctrl-C does, when a file is begun."""

    def tell(label: str, share: float | None) -> None:
        if label.startswith(f"file {at} of"):
            raise KeyboardInterrupt

    return tell


def test_a_folder_is_whole_or_as_it_was_and_replaced_by_force_alone(model: Model, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        write_rows(model, out, 60, rows_a_file=20, progress=stopping(2))
    assert list(tmp_path.iterdir()) == []
    out.mkdir()  # an empty folder is filled
    write_rows(model, out, 60, seed=0, rows_a_file=20)
    with pytest.raises(OutputError, match="must be new"):
        write_rows(model, out, 60, seed=0, rows_a_file=20)
    with pytest.raises(KeyboardInterrupt):
        write_rows(model, out, 80, seed=0, rows_a_file=20, force=True, progress=stopping(3))
    assert sum(map(len, read(out))) == 60
    write_rows(model, out, 80, seed=0, rows_a_file=20, force=True)
    assert sum(map(len, read(out))) == 80
    (out / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="holds nothing but part"):
        write_rows(model, out, 60, seed=0, rows_a_file=20, force=True)
    assert (out / "notes.txt").read_text() == "mine"
    assert beside(out) == []


def test_a_full_disk_is_told_in_a_sentence_and_leaves_nothing(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10))
    with pytest.raises(OutputError, match=r"2 files to come need about .* MB are free; make room there"):
        write_rows(model, tmp_path / "out", 60, seed=0, rows_a_file=20)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "Error writing bytes to file")

    monkeypatch.setattr("synth.generators.models.postprocess.write_table", full)
    with pytest.raises(OutputError, match=r"out' cannot be written \(No space left on device\); make room"):
        write_rows(model, tmp_path / "out", 60, seed=0, rows_a_file=20)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_rows": 0}, "rows=0 must be a whole number from 1"),
        ({"rows_a_file": 0}, "at least one row: rows_a_file=0"),
        ({"rows_a_file": 3}, "it may have 4: rows_a_file=3 is too few"),
        ({"given": {"nobody": 1}}, "not a column"),
    ],
)
def test_what_cannot_be_written_is_refused_and_leaves_nothing(
    model: Model, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(JobError, match=message):
        write_rows(model, tmp_path / "out", **{"n_rows": 12, "seed": 0, **options})
    assert list(tmp_path.iterdir()) == []
