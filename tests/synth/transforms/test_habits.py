"""Steps and spikes in the encoding without noise: each spike a mode, and what bells make put on steps."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from synth.schema import Schema, build_schema
from synth.table import conform
from synth.transforms.layout import Encoded
from synth.transforms.mode_encoding import ModalEncoding
from synth.transforms.mode_normalization import WIDTH, Modes

HIGH = 1_000_000


def schema_of(**column: Any) -> Schema:
    return build_schema({"status": "declared", "columns": {"x": {"kind": "integer", "bounds": [0, HIGH], **column}}})


def fitted(values: Any, schema: Schema) -> ModalEncoding:
    frame = conform(pd.DataFrame({"x": values}), schema)
    return ModalEncoding.fit(frame, schema, np.random.default_rng(0))


def modes_of(encoding: ModalEncoding) -> Modes:
    (modes,) = encoding.columns
    assert isinstance(modes, Modes)
    return modes


def drawn(encoding: ModalEncoding, n: int, seed: int = 0, *, bells: bool = True) -> np.ndarray:
    """What a network might make: values of all bells, or of all modes."""
    rng, modes = np.random.default_rng(seed), modes_of(encoding)
    first = len(modes.atoms) if bells else 0
    codes = rng.integers(first, len(modes.atoms) + len(modes.means), (n, 1), dtype=encoding.layout.dtype)
    scalars = rng.normal(0, 1 / WIDTH, (n, 1)).clip(-1, 1).astype(np.float32)
    return encoding.invert(Encoded(codes, scalars), rng)["x"].to_numpy(dtype=np.float64)


def spread(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, HIGH + 1, n)


@pytest.mark.parametrize(
    ("column", "unit"),
    [({}, 1), ({"kind": "real", "decimals": 2, "bounds": [0, 1e4]}, 0.01), ({"kind": "real", "bounds": [0, 1]}, 1e-6)],
)
def test_every_spike_that_rows_hold_is_a_mode_that_comes_back_exactly(column: dict[str, Any], unit: float) -> None:
    held = [10_000 * unit, 10_001 * unit, 333_333 * unit]
    values = np.append(spread(4000) * unit, np.repeat(held, 40)).round(12)
    held = np.unique(values[-120:]).tolist()
    schema = schema_of(**column, spikes=[*held, 999_999.5 * unit] if column.get("bounds") == [0, 1] else held)
    encoding = fitted(values, schema)
    assert modes_of(encoding).atoms.tolist() == held
    rows = conform(pd.DataFrame({"x": values}), schema)
    back = encoding.invert(encoding.apply(rows, np.random.default_rng(1)), np.random.default_rng(2))
    assert back["x"][-120:].tolist() == rows["x"][-120:].tolist()
    # From the bells come neighbors of a spike, but never itself.
    others = drawn(encoding, 20_000)
    assert not np.isin(others, held).any() and len(np.unique(others)) > 1000


@pytest.mark.parametrize("shares", [(0.5, 0.8, 0.9), (0.2, 0.6, 1.0)])
def test_what_bells_make_is_on_every_step_as_often_as_its_share_says(shares: tuple[float, ...]) -> None:
    steps, spikes = (1000, 100, 50), [0, 50_000, 777_777]
    values = np.append(spread(5000), np.repeat(spikes, 100))
    encoding = fitted(values, schema_of(steps=list(steps), step_shares=list(shares), spikes=spikes))
    made = drawn(encoding, 40_000)
    for step, share in zip(steps, shares, strict=True):
        assert np.mean(made % step == 0) == pytest.approx(share, abs=0.012)
    assert made.min() >= 0 and made.max() <= HIGH and not np.isin(made, spikes).any()


def test_values_on_steps_stay_near_where_the_network_put_them() -> None:
    encoding = fitted(spread(5000), schema_of(steps=[1000]))
    plain = fitted(spread(5000), schema_of())
    made, before = drawn(encoding, 2000), drawn(plain, 2000)
    assert (made % 1000 == 0).all() and (np.abs(made - before) <= 500).all()


def test_frequent_values_that_nobody_declared_count_toward_the_shares_of_steps() -> None:
    rng = np.random.default_rng(0)
    coarse = np.where(rng.random(6000) < 0.5, 100, 1)
    values = spread(6000, seed=1) // coarse * coarse
    values[:1500] = 500_000
    share = float(np.mean(values % 100 == 0))
    modes = modes_of(fitted(values, schema_of(steps=[100], step_shares=[share])))
    assert modes.atoms.tolist() == [500_000]
    assert modes.step_shares[0] == pytest.approx(np.mean(values[1500:] % 100 == 0), abs=1e-9)
    assert modes.step_shares[0] < share - 0.1


def test_steps_make_no_spike_of_a_declared_one_nor_of_a_bound() -> None:
    """Half of what is near a spike would be rounded onto it: it goes to the multiple on the other side."""
    values = np.append(np.random.default_rng(0).normal(5000, 60, 4000).round(), np.repeat(5000, 400))
    encoding = fitted(values, schema_of(bounds=[4700, 5300], steps=[100], spikes=[5000]))
    made = drawn(encoding, 4000)
    assert (made % 100 == 0).all() and not (made == 5000).any()
    assert made.min() >= 4700 and made.max() <= 5300
    low, high = np.mean(made < 5000), np.mean(made > 5000)
    assert low == pytest.approx(high, abs=0.1)


@pytest.mark.parametrize("n_values", [30, 77, 128])
def test_a_number_of_few_values_for_its_rows_is_exact(n_values: int) -> None:
    values = np.random.default_rng(0).integers(0, n_values, 4000) * 7_000
    encoding = fitted(values, schema_of())
    assert modes_of(encoding).atoms.tolist() == np.unique(values).tolist()
    assert np.isin(drawn(encoding, 4000, bells=False), values).all()


def test_values_of_single_rows_are_no_modes() -> None:
    values = np.append(np.repeat([0.0, 5.0], 30), spread(60))
    assert modes_of(fitted(values, schema_of())).atoms.tolist() == [0.0, 5.0]
    assert len(modes_of(fitted(spread(200), schema_of())).atoms) == 0


def test_a_model_that_was_saved_before_there_were_steps_draws_as_it_did() -> None:
    schema = schema_of(steps=[1000])
    encoding = fitted(spread(3000), schema)
    content = json.loads(json.dumps(encoding.to_plain()))
    assert content["x"].pop("step_shares") == [1.0]
    before = ModalEncoding.from_plain(content, schema)
    assert before.layout == encoding.layout
    assert np.mean(drawn(before, 2000) % 1000 == 0) < 0.02
    assert (drawn(encoding, 2000) % 1000 == 0).all()


def test_shares_of_other_steps_are_refused() -> None:
    content = fitted(spread(3000), schema_of(steps=[1000])).to_plain()
    with pytest.raises(ValueError, match="steps"):
        ModalEncoding.from_plain(content, schema_of(steps=[1000, 100]))
