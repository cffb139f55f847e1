"""Folders of models, damaged ones as well, and generators that a plug-in brings."""

import json
import os
import resource
import warnings
from collections.abc import Iterator
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
from synth.errors import BadInput, JobError, ModelError
from synth.generators import registry
from synth.generators.base import fit_model
from synth.generators.models.model import ARRAYS, DESCRIPTION, MOST_BYTES
from synth.schema import build_schema
from understudy.cli import app


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"sex": rng.choice(["F", "M"], 200), "age": rng.integers(18, 90, 200)})


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "independent"
    synth.fit(table(), "independent", progress=synth.quiet).save(folder)
    return folder


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


DAMAGED: list[tuple[str, str, str]] = [
    ("", "[" * 10**5, "damaged"), ("", '{"format": ' + "9" * 5000 + "}", "damaged"), ("", '{"format": NaN}', "damaged"),
    ("", "{}", "damaged"), ("", "{", "damaged"), ('"format": 1', '"format": 99', "upgrade understudy"),
    ('"independent"', '"x"', "unknown generator"), ('"total": ', '"total": -', "fit it again"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "clause"), DAMAGED, ids=lambda each: each[:20])
def test_a_description_that_is_damaged_newer_or_foreign_is_refused(
    saved: Path, old: str, new: str, clause: str, tmp_path: Path
) -> None:
    text = (saved / DESCRIPTION).read_text().replace(old, new, 1) if old else new
    assert clause in str(refusal(written(tmp_path / "m", text, contents(saved)[1])))


def test_arrays_that_are_missing_or_of_another_shape_and_folders_of_no_model_are_refused(
    saved: Path, tmp_path: Path
) -> None:
    content, arrays = contents(saved)
    for other in ({}, {**arrays, "more": np.zeros(3)}, {name: each.ravel()[:-1] for name, each in arrays.items()}):
        assert "fit it again" in str(refusal(written(tmp_path / "m", content, other)))
    (tmp_path / "m" / ARRAYS).write_bytes(b"\x00" * 64)
    assert "damaged" in str(refusal(tmp_path / "m"))
    assert "name a saved model" in str(refusal(tmp_path / "nothing"))


@pytest.mark.parametrize("name", [DESCRIPTION, ARRAYS])
def test_a_file_that_is_too_large_is_refused_unread(saved: Path, name: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "m", *contents(saved))
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


PLUGIN = Path(__file__).parents[2] / "plugin"


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(PLUGIN)
    registry._known.cache_clear()
    yield
    registry._known.cache_clear()


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
    assert registry.generator_class("mst").__module__ == "synth.generators.marginal_generator"


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(("name", "clause"), [("boastful", "vouch"), ("broken", "cannot be imported")])
def test_one_that_makes_a_claim_or_cannot_be_imported_is_refused_in_a_sentence(
    name: str, clause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(PLUGIN / "refused")
    registry._known.cache_clear()
    with pytest.raises(JobError, match=f"generator='{name}'.*{clause}"):
        registry.generator(name)


def test_a_model_without_epsilon_that_makes_a_claim_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(PLUGIN)
    from understudy_shuffle import Shuffle, Shuffled

    monkeypatch.setattr(Shuffled, "__init__", partialmethod(Shuffled.__init__, statement="epsilon 0.1"))
    real = table()
    with pytest.raises(ModelError, match="makes a claim"):
        fit_model(Shuffle(), real, synth.infer_schema(real))
