"""Where a table came from and how it was made, as its card says."""

import math
from collections.abc import Mapping
from typing import Any

from evaluate.plain_data import mapping, whole
from evaluate.result import Candidate, Evaluation
from evaluate.text import amount
from reports.model_card import words
from reports.model_card.shape import (
    Form,
    Made,
    NoPromise,
    Promise,
    Trained,
)

_CLASSES = ("boolean", "categorical")
_NUMBERS = ("integer", "real", "weight", "date", "datetime")


def task_of(schema: Mapping[str, Any], form: Form) -> str | None:
    """What the target is for; an inferred schema has kinds that were read off the real table."""
    if form == "public" and schema.get("status") != "declared":
        return None
    column = mapping(mapping(schema.get("columns")).get(str(schema.get("target"))))
    kind = column.get("kind")
    return "tabular-classification" if kind in _CLASSES else "tabular-regression" if kind in _NUMBERS else None


def trained_of(
    evaluation: Evaluation, privacy: Promise | NoPromise, holdout_share: float | None, form: Form
) -> Trained:  # fmt: skip
    """What a table was fitted to, without a count of real rows in public."""
    schema = evaluation.schema
    dataset = schema.get("dataset") if schema.get("status") == "declared" else None
    n, counted_in = whole(schema.get("n_units")), "declared units, those held out included"
    if isinstance(privacy, Promise):
        n = privacy.n_units
    elif form == "internal":
        n, counted_in = _two_digits(evaluation.real.get("train_rows")), "training rows, rounded to two digits"
    elif schema.get("status") != "declared":
        n = None
    return Trained(
        dataset=None if dataset is None else str(dataset),
        n=n,
        counted_in="not stated" if n is None else counted_in,
        holdout_share=holdout_share,
    )


def made_of(candidate: Candidate, known: Mapping[str, Any], privacy: Promise | NoPromise, form: Form) -> Made:
    """By which generator it was made; in public without the seed, and without the machine."""
    specified = dict(candidate.generator)
    secure = isinstance(privacy, Promise) and privacy.status != "void"
    seed, said = whole(known.get("seed")), words.SEED_OF_SAMPLING if secure else words.SEED_OF_ALL
    if form == "public":
        seed, said = None, words.SEED_KEPT_BACK
    elif seed is None:
        said = words.SEED_UNKNOWN
    installed = {str(name): str(version) for name, version in mapping(known.get("versions")).items()}
    if form == "public":
        installed.pop("platform", None)
    return Made(
        generator=str(specified.pop("generator", "unknown")),
        parameters={str(key): _plain(value) for key, value in specified.items()},
        seed=seed,
        seed_in_words=said,
        run_id=None if known.get("run_id") is None else str(known["run_id"]),
        versions=installed,
    )


def _two_digits(n: object) -> int | None:
    """A count that names no single row.

    >>> _two_digits(39074), _two_digits(7), _two_digits(None)
    (39000, 7, None)
    """
    known = amount(n)
    if known is None:
        return None
    step = 10 ** max(0, math.floor(math.log10(max(known, 1.0))) - 1)
    return int(round(known / step) * step)


def _plain(value: object) -> Any:
    """A parameter as plain data, whatever it was."""
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if value is None or isinstance(value, bool | int | str):
        return value
    return value if isinstance(value, float) and math.isfinite(value) else str(value)
