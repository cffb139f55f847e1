"""Attacks by what members lose beyond others: a copy alarms, an independent sample does not, whatever the table."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from evaluate.privacy import attribute_inference, linkability, reconstruction, singling_out
from evaluate.privacy.attribute_inference import Secret
from evaluate.privacy.linkability import splits_of
from evaluate.privacy.singling_out import MOST, Predicates, attempts, coded
from synth.schema import build_schema

ATTACKS = {
    "singling out": (singling_out, 0.0), "linkability": (linkability, 0.1), "inference": (attribute_inference, 0.2),
    "reconstruction": (reconstruction, 0.05),
}  # fmt: skip
"""Each attack, and what a copy's lower end lies above."""
RATIOS = [(800, 100, 100, 300), (400, 200, 200, 300), (200, 200, 200, 300)]
"""Rows of train, both halves of the holdout and synthetic: ratios of 4:1, 1:1, 1:2 between train and holdout."""
KINDS = ["all categorical", "all numeric", "mixed"]


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(singling_out, "N_PREDICATES", 250)
    monkeypatch.setattr(singling_out, "N_GUESSES", 20)


def named(tables, *columns):
    """The tables with quasi-identifiers, which `reconstruction` needs: six categories tell another, one number does."""
    names = list(tables.train.columns)
    known = list(columns) or {"x0": ["x0"], "c0": names[:6] if "c8" in names else ["c0", "x0"]}.get(names[0], names[:2])
    schema = build_schema({**tables.schema.model_dump(), "quasi_identifiers": known})
    return replace(tables, schema=schema, declared=schema)


def measured(attack, tables):
    result = ATTACKS[attack][0].measure(named(tables) if attack == "reconstruction" else tables)
    return (*result.estimates, *result.failures)[0]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize(("kind", "sizes"), [*zip(KINDS, RATIOS, strict=True)])
def test_a_copy_alarms(attack, kind, sizes, draw, make):
    result = measured(attack, draw(make[kind], (*sizes[:3], sizes[0]), seed=1, leak=1.0))
    assert result.low > ATTACKS[attack][1]
    assert result.value > result.detectable


@pytest.mark.statistical
@pytest.mark.parametrize("attack", ATTACKS)
def test_independent_samples_raise_no_alarm_at_any_ratio(attack, draw, make):
    """Of 24 draws; right intervals exceed the bound once in a million runs."""
    drawn = [
        measured(attack, draw(make[kind], sizes, seed=20_000 + seed))
        for kind in (*KINDS, "many duplicates") for sizes in RATIOS for seed in range(2)
    ]  # fmt: skip
    ends = [(each.low, each.high) for each in drawn if hasattr(each, "low")]  # of duplicates nobody is alone
    assert len(ends) >= 18
    assert sum(not low <= 0 <= high for low, high in ends) <= stats.binom.isf(1e-6, len(ends), 0.05)


# Singling out


def test_of_every_entity_one_row_is_a_person(draw, make):
    tables = draw(make["mixed"], (400, 100, 100, 200), seed=1)
    columns = {**tables.schema.model_dump()["columns"], "who": {"kind": "identifier", "bounds": [0, 10**9]}}
    schema = build_schema({"status": "inferred", "columns": columns, "entity": "who"})

    def twice(frame):
        """Everybody has two equal rows, so that no predicate would hold of one row only."""
        return pd.concat([frame, frame], ignore_index=True).assign(who=list(range(len(frame))) * 2)

    sides = {side: twice(getattr(tables, side)) for side in ("train", "control", "synthetic")}
    sides["synthetic"] = sides["train"]
    assert measured("singling out", replace(tables, schema=schema, declared=schema, **sides)).low > 0


def test_a_hit_is_exactly_one_row_of_a_block(make, draw):
    tables = draw(make["one column"], (60, 20, 20, 20), seed=1)
    frame = pd.DataFrame({"x": [1.0, 2.0, 2.0, 3.0, 1.0, 9.0, 1.0]})
    rows = coded(frame, pd.DataFrame({"x": [1.0, 2.0, 3.0]}), tables.schema)
    predicates = Predicates(np.array([[1], [3], [0]]), np.array([[1], [3], [MOST]]))
    hits, singled_out = attempts(rows, predicates, 3)
    assert hits.tolist() == [[True, True], [False, False], [False, False]]
    assert sorted(singled_out) == [0, 4]


# Linking


def test_columns_are_split_at_random_and_as_the_schema_names_them():
    columns = {name: {"kind": "real", "bounds": [-1e9, 1e9]} for name in "abcde"}
    plain = build_schema({"status": "inferred", "columns": columns})
    drawn = [list(splits_of(plain, seed)) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(sorted(split[0] + split[1]) == list("abcde") for split in drawn[0])
    roles = {"quasi_identifiers": ["b", "a"], "parties": [["a"], ["d", "c"], ["a", "e"]]}
    result = list(splits_of(build_schema({"status": "inferred", "columns": columns, **roles}), 0))
    named = [(("a", "b"), ("c", "d", "e")), (("a",), ("c", "d")), (("a", "e"), ("c", "d"))]
    assert set(named) <= set(result)
    assert len(set(result)) == len(result) <= 6


# Inference and reconstruction


def test_the_worst_column_is_named_and_its_interval_is_that_of_the_largest_advantage(draw, make):
    result = attribute_inference.measure(draw(make["mixed"], RATIOS[1], seed=2, leak=1.0))
    columns = {each["column"]: each["advantage"] for each in result.figures["inference"]["columns"]}
    (worst,) = result.estimates
    assert worst.low == max(low for _, low, _ in columns.values())
    assert worst.high == max(high for _, _, high in columns.values())
    assert worst.value == next(value for name, (value, *_) in columns.items() if f"'{name}'" in worst.note)


def test_values_are_found_within_their_tolerance_and_missing_ones_by_a_missing_guess():
    nan, empty = np.nan, np.zeros(0)
    secret = Secret(empty, empty, np.array([1.0]), empty, width=0.5, is_line=True)
    result = secret.found(np.array([1.0, 1.0, 1.0, nan, nan]), np.array([1.5, 1.6, nan, 1.0, nan]))
    assert result.tolist() == [True, False, False, False, True]


def test_a_leak_of_rare_values_shows_among_them(evaluate_frames):
    rng = np.random.default_rng(0)

    def rows(n: int) -> pd.DataFrame:
        frame = pd.DataFrame({"who": rng.standard_normal(n), "town": rng.integers(0, 50, n).astype(float)})
        return frame.assign(illness=np.where(rng.random(n) < 0.08, "rare", "none"))

    train, fresh, control, synthetic = (rows(n) for n in (2000, 1000, 1000, 1900))
    leaked = pd.concat([synthetic, train[train["illness"] == "rare"]])
    tables = named(evaluate_frames(train, fresh, control, leaked), "who", "town")
    drawn = attribute_inference.measure(tables).figures["inference"]["columns"]
    (illness,) = [each for each in drawn if each["column"] == "illness"]
    assert illness["rare"]["advantage"][1] > 0.5 > 0.2 > illness["advantage"][0]
    # Every value weighs alike where a record is reconstructed.
    (illness,) = [
        each for each in reconstruction.measure(tables).figures["reconstruction"] if each["column"] == "illness"
    ]
    assert illness["advantage"][1] > 0.2
