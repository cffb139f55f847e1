"""Rows written in files are one table, whoever made them, and the same one however often the work was interrupted."""

import dataclasses
import errno
import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from filelock import FileLock

from synth.errors import JobError, ModelError, OutputError, SchemaError
from synth.generators import registry
from synth.generators.models import chunked_output
from synth.generators.models.chunked_output import least_entities, write_rows
from synth.generators.models.model import Model
from synth.generators.models.postprocess import entity_of_rows
from synth.schema import Schema, build_schema
from synth.table import conform, violations
from tests.synth.generators.test_contract import QUICK
from tests.synth.generators.writing_rows import ROWS, ROWS_A_FILE, SEED

SCRIPT = Path(__file__).parent / "writing_rows.py"
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


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in files(folder)}


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


@pytest.mark.parametrize(("rows", "rows_a_file", "sizes"), [
    (10, 4, [3, 3, 4]), (8, 4, [4, 4]), (3, 4, [3]), (4, 4, [4]), (21, 10, [7, 7, 7]),
])  # fmt: skip
def test_rows_are_spread_evenly_over_as_few_files_as_will_do(
    tmp_path: Path, rows: int, rows_a_file: int, sizes: list[int]
) -> None:
    written = write_rows(plain(narrow(unique=False)), tmp_path / "out", rows, seed=0, rows_a_file=rows_a_file)
    assert [len(frame) for frame in read(tmp_path / "out")] == sizes
    assert (written.n_rows, written.n_files) == (rows, len(sizes))


def test_a_seed_gives_the_same_bytes_and_none_a_fresh_seed_that_is_told(
    model: Model, whole: Path, tmp_path: Path
) -> None:
    places = [tmp_path / name for name in ("again", "other", "fresh", "told")]
    write_rows(model, places[0], ROWS, seed=SEED, rows_a_file=ROWS_A_FILE)
    write_rows(model, places[1], ROWS, seed=SEED + 1, rows_a_file=ROWS_A_FILE)
    told, another = (
        write_rows(model, place, ROWS, rows_a_file=ROWS_A_FILE).seed for place in (places[2], tmp_path / "another")
    )
    write_rows(model, places[3], ROWS, seed=told, rows_a_file=ROWS_A_FILE)
    again, other, fresh, same = map(content, places)
    assert again == content(whole) != other
    assert fresh == same != content(tmp_path / "another")
    assert told != another


def test_every_file_has_rows_of_its_own(whole: Path) -> None:
    frames = [frame[["day", "from", "to"]].to_records(index=False).tolist() for frame in read(whole)]
    assert len({str(frame) for frame in frames}) == 9


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


@pytest.mark.statistical
def test_entities_have_the_sizes_that_they_have_in_one_large_sample(model: Model, tmp_path: Path) -> None:
    """Files of 200 rows cut off the last of about 75 entities each: shares within 4 points."""
    write_rows(model, tmp_path / "out", 9000, seed=1, rows_a_file=200)
    sizes = pd.concat(read(tmp_path / "out")).groupby("who").size()
    whole = model.sample(9000, seed=2).groupby("who").size()
    for size in range(1, 5):
        assert abs((sizes == size).mean() - (whole == size).mean()) < 0.04


@pytest.mark.statistical
def test_files_together_have_the_distribution_of_one_large_sample(
    frame: pd.DataFrame, schema: Schema, tmp_path: Path
) -> None:
    """Each cell of each pair of columns within 6 standard errors of what independent rows have."""
    wide = build_schema({**json.loads(schema.model_dump_json()), "n_units": None})
    columns = {**wide.columns, "id": wide.columns["id"].model_copy(update={"template": "P-######"})}
    fitted = registry.generator("mst").fit(frame, schema.model_copy(update={"columns": columns}), seed=0)
    write_rows(fitted, tmp_path / "out", 20_000, seed=3, rows_a_file=250)
    parts = pd.concat([pq.read_table(path).to_pandas() for path in files(tmp_path / "out")], ignore_index=True)
    large = fitted.sample(20_000, seed=4)
    names = ["job", "level", "married", "income"]
    for place, one in enumerate(names):
        for other in names[place:]:
            ours, theirs = (
                table[[one, other]].astype(str).replace({"None": "-", "<NA>": "-", "nan": "-"}).value_counts()
                if one != other else table[one].astype(str).replace({"None": "-", "<NA>": "-"}).value_counts()
                for table in (parts, large)
            )  # fmt: skip
            off = ours.sub(theirs, fill_value=0).abs() / 20_000
            share = ours.add(theirs, fill_value=0) / 40_000
            assert (off < 6 * np.sqrt(2 * share * (1 - share) / 20_000) + 1e-4).all(), (one, other)


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
    made: dict[str, Any] = {"store": rng.choice(["a", "b"], 120, p=[0.8, 0.2]), "day": np.arange(120) % 60 + 1}
    made |= {"id": [f"{'AB'[i // 100]}{i % 100:02d}" for i in range(120)], "mail": "Lee"}
    frame = pd.DataFrame({name: made[name] for name in schema.kept})
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


def test_a_format_can_be_used_up_over_all_files_but_not_exceeded(tmp_path: Path) -> None:
    model = plain(narrow(unique=False, id={"kind": "identifier", "template": "A##"}))
    write_rows(model, tmp_path / "out", 2600, seed=0, rows_a_file=300)
    assert pd.concat(read(tmp_path / "out"))["id"].nunique() == 2600
    with pytest.raises(SchemaError, match="room for 2600 values, too few"):
        write_rows(model, tmp_path / "more", 2601, seed=0, rows_a_file=300)
    assert beside(tmp_path / "out") == []


def two_rows_each(template: str) -> Model:
    """Entities of one or two rows, as many of each, and 1.5 on average."""
    columns = {"who": {"kind": "identifier", "template": template}, "day": {"kind": "integer", "bounds": [1, 60]}}
    schema = build_schema({"status": "declared", "entity": "who", "max_rows_per_unit": 2, "columns": columns})
    who = np.repeat(np.arange(40), np.arange(40) % 2 + 1)
    frame = pd.DataFrame({"who": [f"{template[0]}-{i}" for i in who], "day": np.arange(len(who)) % 60 + 1})
    return registry.generator("independent").fit(frame, schema, seed=0)


def test_entities_that_one_large_sample_has_names_for_have_them_in_many_files(tmp_path: Path) -> None:
    """Files need 34 names of the 1,000 on average, and some of them more than the 35 that there are for each."""
    model = two_rows_each("P-###")
    assert model.sample(1400, seed=0)["who"].nunique() <= 1000
    most = 0
    for seed in range(3):
        write_rows(model, tmp_path / str(seed), 1400, seed=seed, rows_a_file=50)
        owners = [set(frame["who"]) for frame in read(tmp_path / str(seed))]
        assert sum(map(len, owners)) == len(set.union(*owners)) <= 1000
        most = max(most, *map(len, owners))
    assert most > 1000 // 28


def test_too_few_names_are_refused_before_any_row_is_drawn_where_that_can_be_known(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="room for 1000 values, too few for this table"):
        write_rows(two_rows_each("P-###"), tmp_path / "out", 2000, seed=0, rows_a_file=100, progress=only_from(99))
    rows = plain(narrow(unique=False, id={"kind": "identifier", "template": "A##"}))
    with pytest.raises(SchemaError, match="room for 2600 values, too few for this table"):
        write_rows(rows, tmp_path / "out", 2601, seed=0, rows_a_file=100, progress=only_from(99))
    cards = plain(narrow(unique=False, mail={"kind": "personal", "personal": "phone", "template": "#", "unique": True}))
    with pytest.raises(SchemaError, match="too few different values"):
        write_rows(cards, tmp_path / "out", 11, seed=0, rows_a_file=5, progress=only_from(99))
    assert list(tmp_path.iterdir()) == []


def test_names_that_come_out_at_the_last_entities_end_the_call_with_nothing_left(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="room for 1000 values, too few for this table"):
        write_rows(two_rows_each("P-###"), tmp_path / "out", 1600, seed=0, rows_a_file=400)
    assert list(tmp_path.iterdir()) == []


def test_a_table_is_next_to_surely_not_refused_for_entities_that_it_may_not_have() -> None:
    """20 tables for each distribution of sizes, one of them with few entities that hold most rows."""
    rng = np.random.default_rng(0)
    for shares in ([1.0], [0.5, 0.5], [0.2, 0.3, 0.1, 0.4], [0.999, *[0.0] * 998, 0.001]):
        for n_rows in (1, 10, 1000, 50_000):
            least = least_entities(tuple(shares), n_rows)
            assert least >= -(-n_rows // len(shares))
            found = [entity_of_rows(np.array(shares), n_rows, rng)[-1] + 1 for _ in range(20)]
            assert min(found) >= least
    assert least_entities((0.5, 0.5), 10**6) > 0.99 * 10**6 / 1.5


def test_values_that_faker_writes_do_not_repeat_in_later_files_until_it_knows_no_more(tmp_path: Path) -> None:
    model = plain(narrow(unique=False, mail={"kind": "personal", "personal": "last_name", "unique": True}))
    write_rows(model, tmp_path / "out", 600, seed=0, rows_a_file=100)
    assert pd.concat(read(tmp_path / "out"))["mail"].nunique() == 600
    with pytest.raises(SchemaError, match="too few different values"):
        write_rows(model, tmp_path / "more", 5_000, seed=0, rows_a_file=100)
    assert beside(tmp_path / "out") == []


def test_rejected_rows_are_added_up_also_those_of_an_earlier_start(model: Model, whole: Path, tmp_path: Path) -> None:
    every = write_rows(model, tmp_path / "one", ROWS, seed=SEED, rows_a_file=ROWS_A_FILE)
    assert every.n_rejected
    with pytest.raises(KeyboardInterrupt):
        write_rows(model, tmp_path / "two", ROWS, seed=SEED, rows_a_file=ROWS_A_FILE, progress=stopping(5))
    assert write_rows(model, tmp_path / "two", ROWS, seed=SEED, rows_a_file=ROWS_A_FILE).n_rejected == every.n_rejected
    rowless = plain(narrow(unique=False))
    assert write_rows(rowless, tmp_path / "three", 50, seed=0, rows_a_file=20).n_rejected is None


def stopping(at: int) -> Callable[[str, float | None], None]:
    """A `Progress` that ends the work as Ctrl-C does, when a file is begun."""

    def tell(label: str, share: float | None) -> None:
        if label.startswith(f"file {at} of"):
            raise KeyboardInterrupt

    return tell


def test_what_is_given_holds_in_every_file(model: Model, tmp_path: Path) -> None:
    write_rows(model, tmp_path / "out", 300, seed=0, rows_a_file=100, given={"town": "b", "to": None})
    together = pd.concat(read(tmp_path / "out"))
    assert set(together["town"]) == {"b"}
    assert together["to"].isna().all()


@pytest.mark.parametrize("name", registry.names())
def test_every_generator_writes_files_of_one_table(
    name: str, frame: pd.DataFrame, schema: Schema, tmp_path: Path
) -> None:
    if name.startswith("sdv") and importlib.util.find_spec("sdv") is None:
        pytest.skip("the extra sdv is not installed")
    fitted = registry.generator(name, **QUICK.get(name, {})).fit(frame, schema, seed=0)
    for place in ("one", "two"):
        written = write_rows(fitted, tmp_path / place, 250, seed=2, rows_a_file=90)
        assert (written.n_rows, written.n_files, written.n_rejected) == (250, 3, None)
    assert content(tmp_path / "one") == content(tmp_path / "two")
    together = conform(pd.concat(read(tmp_path / "one"), ignore_index=True), schema)
    assert violations(together, schema) == []
    assert together["id"].is_unique
    assert not together.drop(columns="id").duplicated().any()


# --- interrupted ---


@pytest.fixture(scope="module")
def killed(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., int]]:
    """Attempts in processes that are killed; each gives its exit code."""
    place = tmp_path_factory.mktemp("killed") / "model"
    model.save(place)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.synth.generators.writing_rows", str(place)], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3],
    )  # fmt: skip

    def attempt(out: Path, **when: Any) -> int:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"out": str(out), **when}) + "\n")
        process.stdin.flush()
        return int(json.loads(process.stdout.readline()))

    yield attempt
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.wait(timeout=60)
    process.stdout.close()


@pytest.mark.parametrize("every", [47, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_at_any_touch_of_the_disk_the_folder_is_whole_or_not_there(
    killed: Callable[..., int], whole: Path, tmp_path: Path, every: int
) -> None:
    die_at, code = 0, -9
    while code == -9:
        out = tmp_path / str(die_at) / "out"
        out.parent.mkdir()
        code = killed(out, die_at=die_at)
        if not out.exists():
            assert killed(out) == 0
        assert content(out) == content(whole)
        shutil.rmtree(out.parent)
        die_at += every
    assert die_at > 90


def test_an_interrupted_folder_is_not_there_and_says_what_is_kept(model: Model, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt) as stopped:
        write_rows(model, out, ROWS, seed=SEED, rows_a_file=ROWS_A_FILE, progress=stopping(4))
    assert stopped.value.__notes__ == ["3 of 9 files are kept, and the same command goes on from there"]
    assert not out.exists()
    labels: list[str] = []
    write_rows(model, out, ROWS, seed=SEED, rows_a_file=ROWS_A_FILE, progress=lambda label, _: labels.append(label[:6]))
    assert sorted(set(labels)) == [f"file {index}" for index in range(4, 10)]
    assert content(out) == content(whole)
    assert beside(out) == []


@pytest.mark.statistical
def test_without_a_seed_the_same_call_goes_on_with_the_seed_it_began_with(model: Model, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write_rows(model, tmp_path / "out", ROWS, rows_a_file=ROWS_A_FILE, progress=stopping(4))
    seed = write_rows(model, tmp_path / "out", ROWS, rows_a_file=ROWS_A_FILE).seed
    write_rows(model, tmp_path / "same", ROWS, seed=seed, rows_a_file=ROWS_A_FILE)
    assert content(tmp_path / "out") == content(tmp_path / "same")


def test_before_a_file_is_whole_nothing_is_kept(model: Model, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt) as stopped:
        write_rows(model, tmp_path / "out", ROWS, rows_a_file=ROWS_A_FILE, progress=stopping(1))
    assert not hasattr(stopped.value, "__notes__")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_rows": 901}, r"another rows \(rows=900\)"),
        ({"seed": 6}, r"another seed \(seed=5\)"),
        ({"rows_a_file": 99}, r"another rows_a_file \(rows_a_file=100\)"),
        ({"given": {"town": "a"}}, "another given;"),
        ({"model": "other"}, "another model;"),
        ({"n_rows": 901, "seed": 6}, r"another rows \(rows=900\) and another seed \(seed=5\)"),
    ],
)
def test_another_call_is_refused_and_leaves_the_unfinished_rows_alone(
    model: Model, whole: Path, tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    out = tmp_path / "out"
    call: dict[str, Any] = {"model": model, "n_rows": ROWS, "seed": SEED, "rows_a_file": ROWS_A_FILE}
    with pytest.raises(KeyboardInterrupt):
        write_rows(folder=out, progress=stopping(3), **call)
    other = {**call, **changed, "model": plain(narrow(unique=False)) if "model" in changed else model}
    with pytest.raises(OutputError, match=message) as refused:
        write_rows(folder=out, **other)
    assert "2 files of them" in str(refused.value)
    assert not hasattr(refused.value, "__notes__")
    write_rows(folder=out, progress=only_from(3), **call)
    assert content(out) == content(whole)


def only_from(first: int) -> Callable[[str, float | None], None]:
    """A `Progress` that asserts that no earlier file is made again."""

    def tell(label: str, share: float | None) -> None:
        assert int(label.split()[1]) >= first

    return tell


@pytest.mark.statistical
def test_force_throws_the_rows_of_another_call_away_and_goes_on_with_its_own(
    model: Model, whole: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        write_rows(model, out, ROWS, seed=1, rows_a_file=ROWS_A_FILE, progress=stopping(3))
    with pytest.raises(KeyboardInterrupt):
        write_rows(model, out, ROWS, seed=SEED, rows_a_file=ROWS_A_FILE, force=True, progress=stopping(5))
    write_rows(model, out, ROWS, seed=SEED, rows_a_file=ROWS_A_FILE, force=True, progress=only_from(5))
    assert content(out) == content(whole)


def test_a_folder_that_is_there_is_refused_and_with_force_replaced_if_it_holds_nothing_else(
    model: Model, tmp_path: Path
) -> None:
    out = tmp_path / "out"
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


def test_an_empty_folder_is_filled(model: Model, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write_rows(model, tmp_path / "out", 40, seed=0)
    assert [len(frame) for frame in read(tmp_path / "out")] == [40]


def test_two_processes_do_not_write_one_folder(model: Model, tmp_path: Path) -> None:
    (tmp_path / ".out.parts").mkdir()
    with FileLock(tmp_path / ".out.parts" / "lock"), pytest.raises(OutputError, match="another process is writing"):
        write_rows(model, tmp_path / "out", 40, seed=0)
    write_rows(model, tmp_path / "out", 40, seed=0)
    assert beside(tmp_path / "out") == []


# --- refused ---


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_rows": 0}, "at least one row: rows=0"),
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


@pytest.mark.parametrize("characters", [41, 240, 255, "ä" * 120])
def test_an_output_has_any_name_that_the_disk_allows(model: Model, tmp_path: Path, characters: int | str) -> None:
    name = "n" * characters if isinstance(characters, int) else characters
    with pytest.raises(KeyboardInterrupt):
        write_rows(model, tmp_path / name, 60, seed=0, rows_a_file=20, progress=stopping(3))
    assert name[:40] in next(tmp_path.iterdir()).name
    with pytest.raises(KeyboardInterrupt):  # the names begin alike
        write_rows(model, tmp_path / f"{name[:-1]}m", 60, seed=1, rows_a_file=20, progress=stopping(3))
    write_rows(model, tmp_path / name, 60, seed=0, rows_a_file=20, progress=only_from(3))
    assert sum(map(len, read(tmp_path / name))) == 60


def test_a_place_that_the_system_refuses_is_told_in_one_sentence(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OutputError, match=r"cannot be written \(File name too long\); make room there or choose"):
        write_rows(model, tmp_path / ("n" * 256), 12, seed=0)
    for named in (".file.parts", ".folder.parts/lock"):
        (tmp_path / named).parent.mkdir(exist_ok=True)
        (tmp_path / named).mkdir() if named.endswith("lock") else (tmp_path / named).write_text("mine")
        with pytest.raises(OutputError, match=r"cannot be written \((File exists|Is a directory)\); make room there"):
            write_rows(model, tmp_path / named.split(".")[1], 12, seed=0)
        assert (tmp_path / named).exists()


def test_a_folder_below_a_file_is_refused(model: Model, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="is a file"):
        write_rows(model, tmp_path / "file" / "out", 12, seed=0)


def test_an_error_of_the_disk_is_one_sentence_and_the_same_call_goes_on(
    model: Model, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, n_left = chunked_output.write_table, [4]

    def full(*arguments: Any) -> None:
        n_left[0] -= 1
        if n_left[0] < 0:
            raise OSError(errno.ENOSPC, "Error writing bytes to file")
        write(*arguments)

    monkeypatch.setattr(chunked_output, "write_table", full)
    with pytest.raises(OutputError, match=r"out' cannot be written \(No space left on device\); make room") as told:
        write_rows(model, tmp_path / "out", ROWS, seed=SEED, rows_a_file=ROWS_A_FILE)
    assert told.value.__notes__ == ["4 of 9 files are kept, and the same command goes on from there"]
    monkeypatch.undo()
    write_rows(model, tmp_path / "out", ROWS, seed=SEED, rows_a_file=ROWS_A_FILE, progress=only_from(5))
    assert content(tmp_path / "out") == content(whole)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    if shutil.which("mount") is None or subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", place], capture_output=True, check=False
    ).returncode:  # fmt: skip
        pytest.skip("no disk can be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def test_a_disk_too_small_for_the_files_to_come_is_told_after_the_first(
    model: Model, whole: Path, small_disk: Path
) -> None:
    with pytest.raises(OutputError, match=r"files to come need about .* MB are free; make room there") as told:
        write_rows(model, small_disk / "out", ROWS, seed=SEED, rows_a_file=ROWS_A_FILE)
    assert told.value.__notes__ == ["1 of 9 files are kept, and the same command goes on from there"]
    subprocess.run(["mount", "-o", "remount,size=4m", small_disk], check=True)
    write_rows(model, small_disk / "out", ROWS, seed=SEED, rows_a_file=ROWS_A_FILE, progress=only_from(2))
    assert content(small_disk / "out") == content(whole)


MEMORY = """
import resource, sys
from pathlib import Path
from synth.generators.models.chunked_output import write_rows
from synth.generators.registry import load_model
write_rows(load_model(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), seed=0)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
def test_five_million_rows_take_no_more_memory_than_two(frame: pd.DataFrame, schema: Schema, tmp_path: Path) -> None:
    columns = {**schema.columns, "id": schema.columns["id"].model_copy(update={"template": "P-#########"})}
    fitted = registry.generator("mst").fit(frame, schema.model_copy(update={"columns": columns}), seed=0)
    fitted.save(tmp_path / "model")
    peaks = {}
    for millions in (2, 5):
        out = tmp_path / str(millions)
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, tmp_path / "model", out, str(millions * 10**6)], check=True,
            capture_output=True, text=True,
        )  # fmt: skip
        peaks[millions] = int(done.stdout)
        assert len(files(out)) == millions
    assert peaks[5] < 1.4 * peaks[2]  # three tables of a million rows would add as much again
    assert peaks[5] < 1200
