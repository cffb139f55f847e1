"""By which mechanisms a fit read the real table, with which noise and at what cost, as a card says."""

from collections.abc import Mapping
from typing import Any

from evaluate.plain_data import mappings
from evaluate.text import amount
from reports.books import BookLine, Books
from reports.model_card.shape import DpSgd, Spending

STEPS = "Poisson-subsampled Gaussian"
MECHANISMS = {
    "Gaussian": "Gaussian mechanism",
    "Laplace": "Laplace mechanism",
    "exponential": "exponential mechanism",
    STEPS: "DP-SGD (Poisson-subsampled Gaussian mechanism)",
}


def events_of(stated: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The books of a statement, as far as they are any."""
    return mappings(stated.get("events"))


def mechanisms_of(*statements: Mapping[str, Any]) -> tuple[str, ...]:
    """The mechanisms of some statements, each once."""
    named = (str(event.get("mechanism")) for stated in statements for event in events_of(stated))
    return tuple(dict.fromkeys(MECHANISMS.get(one, one) for one in named))


def noise_multiplier(stated: Mapping[str, Any]) -> float | None:
    """Noise in units of what one unit can move: of DP-SGD's steps, else the least of all Gaussian releases.

    >>> noise_multiplier({"events": [{"mechanism": "Gaussian", "noise": {"sigma": 30.0, "sensitivity": 3}}]})
    10.0
    """
    found: dict[str, list[float]] = {STEPS: [], "Gaussian": []}
    for event in events_of(stated):
        noise, kind = event.get("noise"), str(event.get("mechanism"))
        if not isinstance(noise, Mapping) or kind not in found:
            continue
        if kind == STEPS:
            multiplier = amount(noise.get("noise_multiplier"))
        else:
            sigma, moved = amount(noise.get("sigma")), amount(noise.get("sensitivity", 1))
            multiplier = sigma / moved if sigma is not None and moved else None
        found[kind] += [] if multiplier is None else [multiplier]
    return min(found[STEPS] or found["Gaussian"], default=None)


def dp_sgd_of(stated: Mapping[str, Any], generator: Mapping[str, Any]) -> DpSgd | None:
    """What has to be known of training by DP-SGD; none where there was none."""
    for event in events_of(stated):
        noise = event.get("noise")
        if event.get("mechanism") != STEPS or not isinstance(noise, Mapping):
            continue
        multiplier, rate, steps = (
            amount(value) for value in (noise.get("noise_multiplier"), noise.get("sampling_rate"), event.get("count"))
        )
        if multiplier is not None and rate is not None and steps is not None:
            clipped = amount(generator.get("max_grad_norm"))
            return DpSgd(noise_multiplier=multiplier, sampling_rate=rate, steps=int(steps), clipping_norm=clipped)
    return None


def spending_of(books: Books, stated: Mapping[str, Any]) -> tuple[Spending, ...]:
    """Every line of the books of a statement."""
    return tuple(_spending(line, event) for line, event in zip(books.lines, events_of(stated), strict=True))


def _spending(line: BookLine, event: Mapping[str, Any]) -> Spending:
    times = amount(event.get("count"))
    return Spending(
        what=line.what,
        mechanism=line.mechanism,
        noise=line.noise,
        times=None if times is None else int(times),
        rho=line.rho,
        share=line.share,
        delta=line.delta,
    )
