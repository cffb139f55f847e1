"""Measure a synthetic table against the real one, and judge it by a written policy.

From a notebook: an evaluation, what one of its numbers says, and the verdict of a policy.

>>> import numpy as np, pandas as pd, evaluate
>>> rng = np.random.default_rng(0)
>>> real = pd.DataFrame({"age": rng.integers(18, 90, 400), "smoker": rng.random(400) < 0.3})
>>> evaluation = evaluate.evaluate(real[:200], real[300:], holdout=real[200:300], measures=["validity"])
>>> evaluation.candidates[0].find("validity.rows").value
1.0
>>> verdict = evaluation.verdict("internal")
>>> verdict.verdict, [finding.name for finding in verdict.findings if finding.outcome == "PASS"]
('INCONCLUSIVE', ['validity.rows'])
>>> print(verdict)  # doctest: +ELLIPSIS
synthetic: INCONCLUSIVE under policy internal ...
  INCONCLUSIVE privacy.personal: It could not be measured: it was not asked for.
  ...
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evaluate.engine import evaluate
    from evaluate.gate.policy import Policy, load_policy
    from evaluate.gate.verdict import judge
    from evaluate.options import EvaluationOptions
    from evaluate.result import Candidate, Estimate, Evaluation, EvaluationError, Failure
    from evaluate.result_io import evaluation_from

__distribution__ = "understudy-tables"
"""The distribution this package is from: Hugging Face's `evaluate` has the same import name."""

_HOMES = {
    **dict.fromkeys(("Candidate", "Estimate", "Evaluation", "EvaluationError", "Failure"), "evaluate.result"),
    "EvaluationOptions": "evaluate.options", "Policy": "evaluate.gate.policy", "evaluate": "evaluate.engine",
    "evaluation_from": "evaluate.result_io", "judge": "evaluate.gate.verdict", "load_policy": "evaluate.gate.policy",
}  # fmt: skip

__all__ = [
    "Candidate", "Estimate", "Evaluation", "EvaluationError", "EvaluationOptions", "Failure", "Policy", "evaluate",
    "evaluation_from", "judge", "load_policy",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """The public names, imported when first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'evaluate' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names, also those not yet imported."""
    return list(__all__)
