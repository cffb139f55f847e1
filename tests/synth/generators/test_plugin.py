"""A generator that an installed package brings by an entry point."""

from collections.abc import Iterator
from functools import partialmethod
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import synth
from synth.errors import JobError, ModelError
from synth.generators import registry
from synth.generators.base import fit_model
from understudy.cli import app

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
