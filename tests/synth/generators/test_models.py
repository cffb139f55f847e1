"""Folders of models, damaged ones as well, and generators that a plug-in brings."""

import json
import os
import resource
import warnings
from collections.abc import Callable, Iterator
from functools import partialmethod
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save
from typer.testing import CliRunner

import synth
from synth.domain.counts import MARK
from synth.errors import BadInput, JobError, ModelError
from synth.generators import registry
from synth.generators.models.model_folder import ARRAYS, DESCRIPTION, MOST_BYTES
from synth.generators.wrapper import fit_model
from synth.schema import build_schema
from tests.damaging import damaged
from understudy.cli import app

SCHEMA: dict[str, Any] = {
    "status": "declared", "n_units": 300, "entity": "who", "max_rows_per_unit": 3,
    "columns": {
        "who": {"kind": "identifier", "template": "####"},
        "age": {"kind": "integer", "bounds": [18, 40]},
        "day": {"kind": "date", "bounds": ["2020-01-01", "2020-02-01"]},
        "town": {"kind": "categorical", "categories": ["North", "South"], "missing": True},
        "ill": {"kind": "boolean"},
    },
}  # fmt: skip
PARAMETERS = {
    "aim": {"rounds": 3, "n_draws": 500}, "latent_class": {"rounds": 3, "n_classes": 20},
    "ctgan": {"steps": 3}, "tvae": {"steps": 3}, "pategan": {"rounds": 2, "generator_steps": 2},
}  # fmt: skip
NAMES = ["independent", "mst", "aim", "latent_class"]
NEURAL = [
    pytest.param(name, marks=pytest.mark.slow) for name in ("ctgan", "tvae", "pategan") if name in registry.names()
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a saved model, fitted once."""
    rng, n = np.random.default_rng(0), 300
    frame = pd.DataFrame({
        "who": np.array([f"{one:04d}" for one in rng.integers(0, 150, n)], dtype=object),
        "age": pd.array(rng.integers(18, 41, n), dtype="Int64"),
        "day": pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 30, n), "D")).dt.date,
        "town": rng.choice(np.array(["North", "South"], dtype=object), n),
        "ill": pd.array(rng.random(n) < 0.3, dtype="boolean"),
    })  # fmt: skip
    folder, found = tmp_path_factory.mktemp("models"), {}

    def of(name: str) -> Path:
        if name not in found:
            made = registry.generator(name, epsilon=2.0, **PARAMETERS.get(name, {}))
            made.fit(frame, build_schema(SCHEMA), seed=0).save(folder / name)
            found[name] = folder / name
        return found[name]

    return of


def contents(folder: Path) -> tuple[Any, dict[str, np.ndarray]]:
    return json.loads((folder / DESCRIPTION).read_text()), load_file(folder / ARRAYS)


def written(folder: Path, content: Any, arrays: dict[str, np.ndarray]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / DESCRIPTION).write_text(content if isinstance(content, str) else json.dumps(content))
    (folder / ARRAYS).write_bytes(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))
    return folder


def refusal(folder: Path) -> str | None:
    """Why a model gives no sample, in one sentence; none where it gives one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numbers that overflow, as the command line does
            assert len(registry.load_model(folder).sample(40, seed=1)) == 40
    except BadInput as error:
        assert "\n" not in str(error)
        return str(error)
    return None


@pytest.mark.parametrize("name", [*NAMES, *NEURAL])
def test_a_description_damaged_anywhere_gives_a_sample_or_one_sentence(
    saved: Callable[[str], Path], name: str, tmp_path: Path
) -> None:
    content, arrays = contents(saved(name))
    assert refusal(written(tmp_path / "m", content, arrays)) is None
    said = [refusal(written(tmp_path / "m", damaged(content, seed), arrays)) for seed in range(40)]
    assert sum(one is not None for one in said) > 12


ARRAY_DAMAGES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "not a number": lambda a: np.full_like(a, np.nan),
    "infinite": lambda a: np.full_like(a, np.inf),
    "nothing possible": lambda a: np.full_like(a, -np.inf),
    "too high to be added to": lambda a: np.full_like(a, 1e308),
    "another shape": lambda a: a.reshape(-1)[:-1],
    "empty": lambda a: np.zeros(0),
}


@pytest.mark.parametrize("case", ARRAY_DAMAGES)
@pytest.mark.parametrize("name", NAMES)
def test_damaged_arrays_are_refused(saved: Callable[[str], Path], name: str, case: str, tmp_path: Path) -> None:
    content, arrays = contents(saved(name))
    first = sorted(arrays)[0]
    changed = {**arrays, first: ARRAY_DAMAGES[case](arrays[first])}
    assert "fit it again" in str(refusal(written(tmp_path / "m", content, changed)))


def test_arrays_that_are_missing_or_too_many_are_refused(saved: Callable[[str], Path], tmp_path: Path) -> None:
    content, arrays = contents(saved("mst"))
    assert refusal(written(tmp_path / "m", content, {})) is not None
    assert refusal(written(tmp_path / "m", content, {**arrays, "more": np.zeros(3)})) is not None


CONTRADICTIONS: dict[str, Callable[[Any], object]] = {
    "a code out of range": lambda c: c["discretizer"]["age"]["group"].__setitem__(0, 10**6),
    "a code below zero": lambda c: c["discretizer"]["age"]["group"].__setitem__(0, -1),
    "a negative mass": lambda c: c["discretizer"]["age"]["mass"].__setitem__(0, -1.0),
    "a mass that is none": lambda c: c["discretizer"]["age"]["mass"].__setitem__(0, float("nan")),
    "a mass too few": lambda c: c["discretizer"]["age"]["mass"].pop(),
    "edges that descend": lambda c: c["discretizer"]["age"]["edges"].reverse(),
    "edges beyond the bounds": lambda c: c["discretizer"]["age"]["edges"].__setitem__(-1, 10**9),
    "edges of categories": lambda c: c["discretizer"]["town"].update(edges=[0.0, 1.0, 2.0]),
    "a column that is not there": lambda c: c["discretizer"].pop("age"),
    "a column too many": lambda c: c["discretizer"].update(more=c["discretizer"]["age"]),
    "a clique of no column": lambda c: c["distribution"]["cliques"].__setitem__(0, ["none"]),
    "a clique too many": lambda c: c["distribution"]["cliques"].append(["age"]),
    "sizes of another domain": lambda c: c["distribution"]["domain"][0].__setitem__(1, 10**12),
    "coarse codes beyond the fine ones": lambda c: c["distribution"]["domain"].append(["age\0coarse", 10**12]),
    "coarse codes of no column": lambda c: c["distribution"]["domain"].append(["none\0coarse", 2]),
    "a column that nobody decodes": lambda c: c["distribution"]["domain"].append(["more", 2]),
    "a total below zero": lambda c: c["distribution"].update(total=-1.0),
    "rows beyond all": lambda c: c.update(default_rows=10**15),
    "rows that are no number": lambda c: c.update(default_rows="many"),
    "shares below zero": lambda c: c.update(entity_shares=[1.0, -0.5, 0.5]),
    "shares that are nested": lambda c: c.update(entity_shares=[[1.0]]),
    "a domain to measure": lambda c: c["schema"]["columns"].update(age={"kind": "integer", "measure": True}),
    "parameters that are none": lambda c: c.update(parameters=[1]),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_a_description_that_contradicts_itself_is_refused(
    saved: Callable[[str], Path], case: str, tmp_path: Path
) -> None:
    content, arrays = contents(saved("mst"))
    CONTRADICTIONS[case](content)
    assert refusal(written(tmp_path / "m", content, arrays)) is not None


CLASS_CONTRADICTIONS: dict[str, Callable[[Any, dict[str, np.ndarray]], object]] = {
    "a total of none": lambda c, _: c["distribution"].update(total=0.0),
    "an attribute twice": lambda c, _: c["distribution"]["domain"].append(c["distribution"]["domain"][0]),
    "an attribute that nobody decodes": lambda c, _: c["distribution"]["domain"].append(["more", 0]),
    "codes of another column": lambda c, _: c["distribution"]["domain"][0].__setitem__(1, 10**12),
    "shares below zero": lambda _, arrays: np.negative(arrays["class_tables"], out=arrays["class_tables"]),
    "shares of no sum": lambda _, arrays: np.multiply(arrays["class_shares"], 2, out=arrays["class_shares"]),
    "a class too few": lambda _, arrays: arrays.update(class_tables=arrays["class_tables"][:, 1:]),
    "shares of three axes": lambda _, arrays: arrays.update(class_shares=arrays["class_shares"][:, None, None]),
    "a table with no axis": lambda _, arrays: arrays.update(class_tables=np.float64(1.0)),
    "no table": lambda _, arrays: arrays.pop("class_tables"),
    "an array too many": lambda _, arrays: arrays.update(more=np.zeros(3)),
    "a coarse attribute": lambda c, arrays: (
        c["distribution"]["domain"].append([c["distribution"]["domain"][0][0] + MARK, 2]),
        arrays.update(class_tables=np.vstack([arrays["class_tables"], np.full((2, 20), 0.5, np.float32)])),
    ),
    "shares that are truth values": lambda _, arrays: arrays.update(class_shares=np.zeros(3, dtype=bool)),
}


@pytest.mark.parametrize("case", CLASS_CONTRADICTIONS)
def test_classes_that_contradict_themselves_are_refused(
    saved: Callable[[str], Path], case: str, tmp_path: Path
) -> None:
    content, arrays = contents(saved("latent_class"))
    CLASS_CONTRADICTIONS[case](content, arrays)
    assert "fit it again" in str(refusal(written(tmp_path / "m", content, arrays)))


@pytest.mark.parametrize(
    "text", ["[" * 10**5, '{"format": ' + "9" * 5000 + "}", '{"format": 1e999}', '{"format": NaN}', "\ufeff{}", "{", ""]
)
def test_a_description_that_no_parser_should_be_given_is_refused(
    saved: Callable[[str], Path], text: str, tmp_path: Path
) -> None:
    _, arrays = contents(saved("independent"))
    assert "damaged" in str(refusal(written(tmp_path / "m", text, arrays)))


@pytest.mark.parametrize("name", [DESCRIPTION, ARRAYS])
def test_a_file_that_is_too_large_is_refused_unread(saved: Callable[[str], Path], name: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "m", *contents(saved("independent")))
    os.truncate(folder / name, MOST_BYTES[name] + 1)  # it takes no place on the disk
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert f"{name} is too large" in str(refusal(folder))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


def test_cliques_that_would_make_a_giant_are_refused_before_it_is_made(tmp_path: Path) -> None:
    """Each table is small; the clique that holds all pairs of ten columns has more cells than any memory."""
    n_codes, names = 20, [f"c{i}" for i in range(10)]
    columns = {name: {"kind": "integer", "bounds": [1, n_codes]} for name in names}
    schema = build_schema({"status": "declared", "n_units": 900, "columns": columns})
    frame = pd.DataFrame({name: pd.array([*range(1, n_codes + 1)] * 10, dtype="Int64") for name in names})
    registry.generator("independent").fit_rows(frame, schema).save(tmp_path / "whole")
    content, _ = contents(tmp_path / "whole")
    size, pairs = dict(content["distribution"]["domain"]), list(combinations(names, 2))
    content["distribution"]["cliques"] = pairs
    arrays = {f"potential.{i}": np.zeros((size[a], size[b])) for i, (a, b) in enumerate(pairs)}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "damaged" in str(refusal(written(tmp_path / "m", content, arrays)))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


def test_a_model_too_large_to_be_loaded_is_not_saved(
    saved: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MOST_BYTES, DESCRIPTION, 10**6)
    model = registry.load_model(saved("independent"))
    monkeypatch.setitem(MOST_BYTES, DESCRIPTION, 100)
    with pytest.raises(ModelError, match="too large to be saved"):
        model.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


PLUGIN = Path(__file__).parents[2] / "plugin"


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(PLUGIN)
    registry._known.cache_clear()
    yield
    registry._known.cache_clear()


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"sex": rng.choice(["F", "M"], 200), "age": rng.integers(18, 90, 200)})


@pytest.mark.usefixtures("plugin")
def test_a_generator_of_another_package_is_fitted_saved_and_loaded_by_its_name(tmp_path: Path) -> None:
    real = table()
    schema = synth.infer_schema(real)
    model = synth.fit(real, schema, "shuffle")
    drawn = model.sample(100, seed=1)
    assert set(drawn["sex"]) == {"F", "M"}
    model.save(tmp_path / "model")
    pd.testing.assert_frame_equal(synth.load_model(tmp_path / "model").sample(100, seed=1), drawn)
    listed = CliRunner().invoke(app, ["generators"])
    assert (listed.exit_code, "shuffle" in listed.output) == (0, True)


@pytest.mark.usefixtures("plugin")
def test_no_package_takes_the_name_of_a_generator_of_ours() -> None:
    assert registry.generator_class("mst").__module__ == "synth.generators.mst"


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(("name", "said"), [("boastful", "vouch"), ("broken", "cannot be imported")])
def test_one_that_makes_a_claim_or_cannot_be_imported_is_refused_in_a_sentence(
    name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(PLUGIN / "refused")
    registry._known.cache_clear()
    with pytest.raises(JobError, match=f"generator='{name}'.*{said}"):
        registry.generator(name)


def test_a_model_without_epsilon_that_makes_a_claim_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(PLUGIN)
    from understudy_shuffle import Shuffle, Shuffled

    monkeypatch.setattr(Shuffled, "__init__", partialmethod(Shuffled.__init__, statement="epsilon 0.1"))
    real = table()
    with pytest.raises(ModelError, match="makes a claim"):
        fit_model(Shuffle(), real, synth.infer_schema(real))


def test_it_is_unknown_where_the_package_is_not_installed() -> None:
    with pytest.raises(JobError, match="generator='shuffle' is unknown"):
        registry.generator("shuffle")
