"""SDV's shape: a notebook that was written for SDV runs with one import changed."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import understudy as us
from synth.errors import UnderstudyError
from understudy.extras.sdv.single_table import CTGANSynthesizer, SingleTableSynthesizer

NOTEBOOK = """
from sdv.evaluation import evaluate_quality, run_diagnostic
from sdv.metadata import Metadata
from sdv.sampling import Condition, DataFrameCondition
from sdv.single_table import GaussianCopulaSynthesizer

metadata = Metadata.detect_from_dataframes({"guests": real})
synthesizer = GaussianCopulaSynthesizer(metadata, enforce_rounding=True)
synthesizer.fit({"guests": real})
synthetic = synthesizer.sample(num_rows=400)
more = synthesizer.sample(num_rows=400)
synthesizer.reset_sampling()
again = synthesizer.sample(num_rows=400)
quality = evaluate_quality({"guests": real}, synthetic, metadata, verbose=False)
diagnostic = run_diagnostic({"guests": real}, synthetic, metadata, verbose=False)
some = [Condition({"town": "North"}, num_rows=30), DataFrameCondition(pd.DataFrame({"town": ["South", "North"]}))]
conditioned = synthesizer.sample_from_conditions(conditions=some)
remaining = synthesizer.sample_remaining_columns(pd.DataFrame({"town": ["South"] * 20}))
synthesizer.save("synthesizer.pkl")
parameters = synthesizer.get_parameters()
"""


def guests(n: int = 500) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 91, n)
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D")
    return pd.DataFrame(
        {
            "guest": [f"G-{i:05d}" for i in range(n)],
            "email": [f"someone{i}@hotel.example" for i in range(n)],
            "age": age,
            "rating": rng.integers(1, 6, n),
            "rate": np.where(rng.random(n) < 0.1, np.nan, (age * 1.5 + rng.normal(0, 9, n)).round(2)),
            "town": np.where(age > 55, "North", rng.choice(["North", "South"], n)),
            "checkin": day.strftime("%d %b %Y"),
            "member": rng.random(n) < age / 120,
        }
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "library",
    ["sdv.single_table", "understudy.extras.sdv"],  # SDV's own, else it were no notebook for SDV
)
def test_a_notebook_for_sdv_runs_with_one_import_changed(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sdv")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"real": guests(), "pd": pd}
    text = NOTEBOOK.replace("sdv.single_table", library)
    exec(compile(text, "notebook", "exec"), names)
    rows = names["synthetic"]["guests"]
    assert list(rows) == list(names["real"])
    assert rows["guest"].is_unique
    assert not {*rows["email"]} & {*names["real"]["email"]}
    pd.to_datetime(rows["checkin"], format="%d %b %Y")
    assert rows.equals(names["again"]["guests"])
    assert not rows.equals(names["more"]["guests"])
    assert names["diagnostic"].get_score() > 0.9
    assert 0.4 < names["quality"].get_score() <= 1
    assert names["conditioned"]["guests"]["town"].to_list() == ["North"] * 30 + ["South", "North"]
    assert names["conditioned"]["guests"]["guest"].is_unique
    assert names["remaining"]["guests"]["town"].to_list() == ["South"] * 20
    assert Path("synthesizer.pkl").exists()
    assert "enforce_rounding" in names["parameters"]


METADATA = {
    "columns": {
        "age": {"sdtype": "categorical"}, "rating": {"sdtype": "numerical"}, "town": {"sdtype": "categorical"},
    }
}  # fmt: skip
FRAME = guests()[["age", "rating", "town"]]


def test_metadata_says_what_is_a_number_and_frames_come_out_as_they_went_in(tmp_path: Path) -> None:
    synthesizer = SingleTableSynthesizer(METADATA, "mst", n_bins=16)
    synthesizer.fit(FRAME)
    assert synthesizer._fitted.schema.columns["age"].kind == "categorical"
    assert synthesizer._fitted.schema.columns["rating"].kind == "integer"
    synthesizer.save(tmp_path / "model")
    loaded = us.sdv.load_synthesizer(tmp_path / "model")
    assert loaded.sample(50).equals(synthesizer.sample(50, batch_size=10, output_file_path=tmp_path / "rows.csv"))
    assert len(pd.read_csv(tmp_path / "rows.csv")) == 50
    assert loaded.get_metadata() == METADATA
    assert loaded.get_parameters() == {"n_bins": 16}
    assert us.load(tmp_path / "model").sample(3).shape == (3, 3)


def test_parameters_of_sdv_are_those_of_ours_or_a_warning_says_that_they_change_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        synthesizer = CTGANSynthesizer(METADATA, epochs=2, embedding_dim=32, generator_dim=(64,), enable_gpu=False)
    assert synthesizer._parameters == {"epochs": 2, "d_latent": 32, "generator_widths": (64,), "device": "cpu"}
    with pytest.warns(UserWarning, match="'discriminator_decay' have no counterpart"):
        CTGANSynthesizer(METADATA, discriminator_decay=1e-6)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: CTGANSynthesizer(METADATA, enforce_rounding=False), "always kept here"),
        (lambda: CTGANSynthesizer(METADATA, epsilon=1.0), "use `us.fit"),
        (lambda: CTGANSynthesizer(METADATA).fit(FRAME[["age"]]), "lacks columns of the metadata: 'rating', 'town'"),
    ],
)
def test_wrong_use_is_one_sentence(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(UnderstudyError) as raised:
        call()
    assert words in str(raised.value)
