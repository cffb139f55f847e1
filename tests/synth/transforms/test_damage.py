"""Encodings that were saved and damaged since are refused, never taken for what they say."""

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from synth.domain import Discretizer
from synth.schema import Schema
from synth.table import conform
from synth.transforms.encoding import BinnedEncoding
from synth.transforms.layout import Encoded
from synth.transforms.mode_encoding import ModalEncoding

REFUSED = (ValueError, KeyError, TypeError)
Damage = Callable[[dict[str, Any]], object]


def _set(*path: Any, to: Any) -> Damage:
    def damage(content: dict[str, Any]) -> None:
        place: Any = content
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return damage


MODAL: dict[str, Damage] = {
    "a column is gone": lambda c: c.pop("age"),
    "a column is unknown": _set("height", to={"codes": [0]}),
    "a column is a number": _set("age", to=3),
    "a column is nothing": _set("job", to=None),
    "a column is a list": _set("age", to=["atoms"]),
    "categories of numbers": _set("age", to={"codes": [0, 1]}),
    "modes of categories": lambda c: c.update(job=c["age"]),
    "no codes": _set("job", "codes", to=[]),
    "codes beyond the column": _set("job", "codes", to=[0, 6]),
    "codes below zero": _set("job", "codes", to=[-1, 2]),
    "codes out of order": _set("job", "codes", to=[2, 1]),
    "codes twice": _set("job", "codes", to=[1, 1]),
    "codes of fractions": _set("job", "codes", to=[0.5, 1.5]),
    "codes of text": _set("job", "codes", to=["0", "1"]),
    "codes beyond 64 bits": _set("job", "codes", to=[0, 2**70]),
    "codes in a table": _set("job", "codes", to=[[0], [1]]),
    "no means": lambda c: c["age"].pop("means"),
    "more means than weights": lambda c: c["age"]["means"].append(1.0),
    "more deviations than means": lambda c: c["age"]["deviations"].append(1.0),
    "a mean that is no number": _set("age", "means", 0, to=float("nan")),
    "a mean beyond all numbers": _set("age", "means", 0, to=float("inf")),
    "a mean beyond float64": _set("age", "means", 0, to=10**400),
    "a mean beyond its range": _set("age", "means", 0, to=1e200),
    "a mean that is missing": _set("age", "means", 0, to=None),
    "a mean of text": _set("age", "means", 0, to="40"),
    "a negative deviation": _set("age", "deviations", 0, to=-1.0),
    "a deviation of zero": _set("age", "deviations", 0, to=0.0),
    "a deviation too small to divide by": _set("age", "deviations", 0, to=1e-300),
    "a deviation beyond its range": _set("age", "deviations", 0, to=1e300),
    "a negative weight": _set("age", "weights", 0, to=-0.1),
    "weights that do not sum to one": _set("age", "weights", 0, to=3.0),
    "atoms out of order": _set("gain", "atoms", to=[5.0, 0.0]),
    "atoms beyond the bounds": _set("gain", "atoms", to=[0.0, 1e9]),
    "an atom that is no number": _set("gain", "atoms", to=[float("nan")]),
    "missing that is no truth": _set("age", "missing", to=1),
    "a mode for missing values in a column without": _set("age", "missing", to=True),
    "a logarithm that is no truth": _set("age", "log", to="yes"),
    "a share of steps above one": _set("age", "step_shares", to=[1.5]),
    "a share of steps that is no number": _set("age", "step_shares", to=[float("nan")]),
    "shares of a column without steps": _set("gain", "step_shares", to=[0.5]),
    "no mode at all": _set(
        "age", to={"atoms": [], "means": [], "deviations": [], "weights": [], "missing": False, "log": False}
    ),
}
BINNED: dict[str, Damage] = {
    "a column is gone": lambda c: c.pop("age"),
    "a column is unknown": lambda c: c.update(height=c["age"]),
    "a column is a list": _set("age", to=["edges", "group", "mass"]),
    "no edges": lambda c: c["age"].pop("edges"),
    "edges of categories": _set("job", "edges", to=[0.0, 1.0]),
    "a number without edges": _set("age", "edges", to=None),
    "edges out of order": _set("age", "edges", 0, to=1e6),
    "an edge that is no number": _set("age", "edges", 0, to=float("nan")),
    "one edge": _set("age", to={"edges": [17.0], "group": [0, 1], "mass": [1.0, 1.0]}),
    "fewer masses than cells": lambda c: c["age"]["mass"].pop(),
    "fewer codes than cells": lambda c: c["age"]["group"].pop(),
    "fewer edges than cells": lambda c: c["age"]["edges"].pop(),
    "a negative mass": _set("age", "mass", 0, to=-1.0),
    "an infinite mass": _set("age", "mass", 0, to=float("inf")),
    "a negative code": _set("age", "group", 0, to=-1),
    "a code far off": _set("age", "group", 0, to=10**12),
    "a code of a fraction": _set("age", "group", 0, to=0.5),
    "a code without a cell": lambda c: c["job"].update(group=[0, 1, 1, 3, 4, 5]),
    "missing is not the last": lambda c: c["job"].update(group=[0, 1, 2, 3, 5, 4]),
    "missing has company": lambda c: c["job"].update(group=[0, 1, 2, 4, 3, 4]),
    "other is not the last but one": lambda c: c["job"].update(group=[0, 1, 2, 3, 2, 4]),
    "a code beyond 64 bits": _set("age", "group", 0, to=2**70),
}


def _plain(encoding: ModalEncoding | BinnedEncoding) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(json.dumps(encoding.to_plain(), allow_nan=False))
    return loaded


@pytest.fixture(scope="module")
def modal_content(frame: pd.DataFrame, schema: Schema) -> dict[str, Any]:
    return _plain(ModalEncoding.fit(frame, schema, np.random.default_rng(0)))


@pytest.fixture(scope="module")
def binned_content(schema: Schema) -> dict[str, Any]:
    return _plain(BinnedEncoding(Discretizer.by_schema(schema)))


@pytest.mark.parametrize("name", MODAL)
def test_damaged_modes_are_refused(name: str, modal_content: dict[str, Any], schema: Schema) -> None:
    content = copy.deepcopy(modal_content)
    assert content["age"]["means"] and not content["age"]["missing"] and content["gain"]["atoms"] == [0.0]
    MODAL[name](content)
    with pytest.raises(REFUSED):
        ModalEncoding.from_plain(content, schema)


@pytest.mark.parametrize("name", BINNED)
def test_damaged_bins_are_refused(name: str, binned_content: dict[str, Any], schema: Schema) -> None:
    content = copy.deepcopy(binned_content)
    BINNED[name](content)
    with pytest.raises(REFUSED):
        BinnedEncoding.from_plain(content, schema)


@pytest.mark.parametrize("content", [[], None, "age", 3, {}])
def test_what_is_no_encoding_at_all_is_refused(content: Any, schema: Schema) -> None:
    for kind in (ModalEncoding, BinnedEncoding):
        with pytest.raises(REFUSED):
            kind.from_plain(content, schema)


def test_a_list_of_the_columns_is_no_encoding_of_them(schema: Schema) -> None:
    for kind in (ModalEncoding, BinnedEncoding):
        with pytest.raises(REFUSED):
            kind.from_plain(list(schema.modeled), schema)  # type: ignore[arg-type]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["codes", "atoms", "a"]), inner),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(junk=JSON, data=st.data())
@pytest.mark.parametrize("kind", [ModalEncoding, BinnedEncoding])
def test_any_damage_is_refused_or_leaves_an_encoding_whose_rows_are_whole(
    kind: Any, junk: Any, data: st.DataObject, modal_content: dict[str, Any], binned_content: dict[str, Any],
    schema: Schema,
) -> None:  # fmt: skip
    content = copy.deepcopy(modal_content if kind is ModalEncoding else binned_content)
    part = content[data.draw(st.sampled_from(sorted(content)))]
    key = data.draw(st.sampled_from(sorted(part)))
    if isinstance(part[key], list) and part[key] and data.draw(st.booleans()):
        part[key][data.draw(st.integers(0, len(part[key]) - 1))] = junk
    else:
        part[key] = junk
    try:
        encoding = kind.from_plain(content, schema)
    except REFUSED:
        return
    rng = np.random.default_rng(0)
    layout = encoding.layout
    codes = np.column_stack([rng.integers(0, size, 50) for size in layout.sizes]).astype(layout.dtype)
    scalars = rng.uniform(-1, 1, (50, len(layout.scalars))).astype(np.float32)
    rows = encoding.invert(Encoded(codes, scalars), rng)
    modeled = schema.model_copy(update={"columns": {name: schema.columns[name] for name in schema.modeled}})
    pd.testing.assert_frame_equal(rows, conform(rows, modeled, part=True))
