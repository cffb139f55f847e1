"""What no model of marginals is made of, in one table; of a saved model any part may be damaged."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from synth.errors import ModelError
from synth.marginals import Measurement
from synth.marginals.distributions import CLASS_SHARES, CLASS_TABLES, LatentClasses, MarkovRandomField
from synth.marginals.estimation import estimate
from synth.marginals.factor import Factor, merge
from synth.marginals.junction_tree import junction_tree
from synth.marginals.latent_class_estimation import ClassEstimation
from synth.marginals.sampling import sample, sample_classes

DOMAIN = {"a": 2, "b": 3}
FIELD = MarkovRandomField(DOMAIN, [Factor(("a", "b"), np.zeros((2, 3)))], 10.0)
HALVES, THIRDS = np.full((2, 2), 0.5), np.full((3, 2), 1 / 3)
WHOLE: dict[str, Any] = {"domain": DOMAIN, "shares": np.full(2, 0.5), "tables": (HALVES, THIRDS), "total": 1.0}
CLASSES = LatentClasses(**WHOLE)
SINGLES = [Measurement((name,), np.ones(size), 1.0) for name, size in DOMAIN.items()]
SHUT = Factor(("a",), np.full(2, -np.inf))


def measure(clique: tuple[str, ...], shape: tuple[int, ...]) -> None:
    ClassEstimation(DOMAIN, {}, SINGLES, 3, np.random.default_rng(0)).add([Measurement(clique, np.ones(shape), 1.0)])


REFUSALS: list[tuple[str, Callable[[], object], str]] = [
    ("attribute twice", lambda: Factor(("a", "a"), np.zeros((2, 2))), "once"),
    ("axis too few", lambda: Factor(("a", "b"), np.zeros(2)), "axis"),
    ("clique outside", lambda: junction_tree(DOMAIN, [("a", "z")]), "'z'"),
    ("no total", lambda: MarkovRandomField(DOMAIN, [], 0), "total"),
    ("no code", lambda: MarkovRandomField({"a": 0}, [], 1), "at least one code"),
    ("another size", lambda: MarkovRandomField(DOMAIN, [Factor(("a",), np.zeros(3))], 1), "fits the domain"),
    ("no number", lambda: MarkovRandomField(DOMAIN, [Factor(("a",), np.array([0.0, np.nan]))], 1), "finite"),
    *((f"marginal {clique}", lambda m=m, clique=clique: m.marginal(clique), "each once")
      for m in (FIELD, CLASSES) for clique in (("a", "a"), ("z",))),
    ("measured twice", lambda: Measurement(("a", "a"), np.zeros((2, 2)), 1.0), "clique="),
    ("no count", lambda: Measurement(("a",), [0.0, np.nan], 1.0), "clique="),
    *((f"sigma {sigma}", lambda sigma=sigma: Measurement(("a",), [0.0, 1.0], sigma), "clique=")
      for sigma in (0.0, -1.0, np.inf, [1.0, 1.0, 1.0])),
    *((f"measured {clique}", lambda c=clique, n=n: merge([Measurement(c, np.zeros(n), 1.0)], DOMAIN), "domain")
      for clique, n in ((("a",), 3), (("z",), 2), (("a", "b"), (3, 2)))),
    *((f"classes {clique}", lambda c=clique, s=shape: measure(c, s), "domain")
      for clique, shape in ((("a", "z"), (2, 2)), ((), ()), (("a", "b"), (3, 2)))),
    ("another start", lambda: estimate({"a": 2}, SINGLES[:1], warm_start=FIELD), "warm start"),
    ("unknown zero", lambda: estimate(DOMAIN, SINGLES, zeros=[Factor(("z",), np.zeros(2))]), "structural zero"),
    ("zeros that leave nothing", lambda: estimate(DOMAIN, SINGLES, total=9.0, zeros=[SHUT]), "leave nothing"),
    ("negative rows", lambda: sample(FIELD, -1, np.random.default_rng(0)), "n_rows=-1"),
    ("negative rows of classes", lambda: sample_classes(CLASSES, -1, np.random.default_rng(0)), "n_rows=-1"),
    *((f"classes {change}", lambda change=change: LatentClasses(**{**WHOLE, **change}), clause)
      for change, clause in (
          ({"total": np.nan}, "positive"), ({"shares": np.array([0.5, 0.4])}, "shares of classes"),
          ({"shares": np.array([[0.5], [0.5]])}, "shares of classes"), ({"tables": (HALVES,)}, "has a table"),
          ({"tables": (HALVES, HALVES)}, "attribute='b'"), ({"tables": (HALVES, THIRDS * 1.1)}, "attribute='b'"))),
]  # fmt: skip


@pytest.mark.parametrize(("call", "clause"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS])
def test_what_makes_no_model_is_refused(call: Callable[[], object], clause: str) -> None:
    with pytest.raises((ValueError, ModelError), match=clause):
        call()


@pytest.mark.parametrize("model", [FIELD, CLASSES], ids=["field", "classes"])
def test_a_damaged_model_is_refused(model: Any) -> None:
    description, arrays = model.to_arrays()
    damaged: list[Any] = [
        *({key: part for key, part in description.items() if key != name} for name in description),
        *({**description, "domain": domain} for domain in (
            None, [["a", 2]], [["a", 2], ["a", 3]], [["a", 2.0], ["b", 3]], [["a", 3], ["b", 1]], [["a", 10**400]])),
        *({**description, "total": total} for total in ("many", -1.0, None, 10**400)),
    ]  # fmt: skip
    for wrong in damaged:
        with pytest.raises(ModelError, match="fit it again"):
            type(model).from_arrays(wrong, arrays)
    for name, array in arrays.items():
        for wrong in (array[:-1], array * np.nan, array.astype("U9")[0], array[:0]):
            with pytest.raises(ModelError, match="fit it again"):
                type(model).from_arrays(description, {**arrays, name: wrong})
    with pytest.raises(ModelError, match="fit it again"):
        type(model).from_arrays(description, {**arrays, "rows": np.zeros(2)})
    assert {*CLASSES.to_arrays()[1]} == {CLASS_SHARES, CLASS_TABLES}
