"""Fits of CTGAN and TVAE on Adult: ours through the public registry, the library's by its classes as they come.

The library takes no gaps, so that a missing category is a category of its own there, and a gap again in what it draws.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from benchmarks.adult_table import DELTA, Adult
from benchmarks.neural_point import BATCH, LIBRARY, NETWORKS, Point, Watch, peak_mib
from benchmarks.scoring import Scorer

GAP = "(missing)"
FIRST_STEPS = 20
"""Of a private fit that only gets first calls over with."""

Sample = Callable[[int, int], pd.DataFrame]
"""A table of so many rows, from a seed."""


def fit_point(point: Point, adult: Adult) -> dict[str, Any]:
    """Seconds of one fit, encoding included; imports and first calls are not."""
    fit_generator(point, adult, adult.train.head(2 * BATCH), epochs=1, steps=FIRST_STEPS)
    watch = Watch()
    fit_generator(point, adult, adult.train, point.epochs)
    seconds, used = watch.read()
    return {"fit_s": seconds, "fit_cpu_s": used, "scores": {"peak_mib": peak_mib()}}


def quality_point(point: Point, adult: Adult) -> dict[str, Any]:
    """One fit, a sample of as many rows, and its scores; a private fit's noise beside."""
    watch = Watch()
    sample, facts = fit_generator(point, adult, adult.train, point.epochs)
    seconds, used = watch.read()
    synthetic = sample(len(adult.train), point.seed)
    sample_s, _ = watch.read()
    scores = {**facts, "peak_mib": peak_mib(), **scored(adult, synthetic)}
    return {"fit_s": seconds, "fit_cpu_s": used, "sample_s": sample_s, "scores": scores}


def scored(adult: Adult, synthetic: pd.DataFrame) -> dict[str, float]:
    """All figures of a table."""
    with threadpool_limits(1):  # many threads on few cores wait for each other most of the time
        return dict(vars(Scorer(adult.train, adult.test, adult.target).score(synthetic)))


def encode_point(point: Point, adult: Adult) -> dict[str, Any]:
    """Seconds of the encoding alone, its fit included."""
    encode = _encode_library if point.generator.startswith(LIBRARY) else _encode_ours
    encode(adult, adult.train.head(2 * BATCH))
    watch = Watch()
    encode(adult, adult.train)
    seconds, used = watch.read()
    return {"fit_s": seconds, "fit_cpu_s": used, "scores": {"peak_mib": peak_mib()}}


def fit_generator(
    point: Point, adult: Adult, train: pd.DataFrame, epochs: int, steps: int | None = None
) -> tuple[Sample, dict[str, float]]:
    """A fitted generator's sampling, and what its statement says of the steps; `None` takes the usual ones."""
    if point.generator.startswith(LIBRARY):
        return _fit_library(point, train, epochs), {}
    return _fit_ours(point, adult, train, epochs, steps)


def _fit_ours(
    point: Point, adult: Adult, train: pd.DataFrame, epochs: int, steps: int | None
) -> tuple[Sample, dict[str, float]]:
    from synth.generators.registry import generator

    private = point.epsilon is not None
    # Peers' private fits get declared bins too.
    schema = adult.binned if private else adult.plain
    parameters: dict[str, Any] = {"epsilon": point.epsilon, "delta": DELTA} if private else {"epochs": epochs}
    if private and steps is not None:
        parameters["steps"] = steps
    if point.generator in NETWORKS:
        parameters["device"] = point.device
    if point.backend:
        parameters["dp_backend"] = point.backend
    model: Any = generator(point.generator, **parameters).fit(train, schema, seed=point.seed)
    facts: dict[str, float] = {}
    for event in model.statement.events if private else ():
        if "noise_multiplier" in event.noise:
            facts = {name: event.noise[name] for name in ("noise_multiplier", "sampling_rate")} | {"steps": event.count}
    return (lambda n, seed: model.sample(n, seed=seed)), facts


def _fit_library(point: Point, train: pd.DataFrame, epochs: int) -> Sample:
    import ctgan

    rows, texts = _for_library(train)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it deprecates in itself
        maker = getattr(ctgan, point.generator.removeprefix(LIBRARY))
        model = maker(epochs=epochs, enable_gpu=point.device != "cpu")
        model.set_random_state(point.seed)
        model.fit(rows, texts)
    return lambda n, _: model.sample(n).replace({name: {GAP: None} for name in texts})


def _for_library(train: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Rows without gaps, and the names of the columns with categories."""
    texts = list(train.select_dtypes(exclude="number").columns)
    return train.assign(**{name: train[name].fillna(GAP) for name in texts}), texts


def _encode_library(adult: Adult, train: pd.DataFrame) -> None:
    from ctgan.data_transformer import DataTransformer

    rows, texts = _for_library(train)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformer = DataTransformer()
        transformer.fit(rows, texts)
        transformer.transform(rows)


def _encode_ours(adult: Adult, train: pd.DataFrame) -> None:
    from synth.neural.encoding import ModalEncoding
    from synth.table import conform
    from synth.table.rows import observe

    rng = np.random.default_rng(0)
    rows = conform(train, adult.plain, part=True)
    ModalEncoding.fit(rows, observe(adult.plain, rows), rng).apply(rows)
