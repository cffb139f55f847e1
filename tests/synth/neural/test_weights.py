"""Trained networks as named arrays: back as they were, or refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from synth.neural.networks import Decoder, GeneratorNetwork
from synth.neural.sampling import CtganNetwork, TvaeNetwork, draw, from_arrays, to_arrays
from synth.transforms.layout import Layout, Span

LAYOUT = Layout((Span("a", 4, True), Span("n", 3, False), Span("b", 3, True)), ("n",))
SHARES = (np.array([0.7, 0.2, 0.09, 0.01]), np.array([0.5, 0.3, 0.2]))
KINDS = ("ctgan", "tvae")
Arrays = dict[str, np.ndarray]


def network(kind: str, widths: tuple[int, ...] = (6, 5)) -> CtganNetwork | TvaeNetwork:
    torch.manual_seed(0)
    if kind == "tvae":
        return TvaeNetwork(LAYOUT, Decoder(4, widths, LAYOUT.width), torch.tensor([0.1]))
    generator = GeneratorNetwork(4 + 7, widths, LAYOUT.width)
    generator(torch.randn(64, 11) * 3 + 1)  # moves what the norms have seen
    return CtganNetwork(LAYOUT, generator.eval(), SHARES)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("widths", [(6,), (6, 5), (3, 4, 5)])
def test_a_network_comes_back_as_it_was(kind: str, widths: tuple[int, ...]) -> None:
    before = network(kind, widths)
    after = from_arrays(to_arrays(before), LAYOUT)
    assert type(after) is type(before)
    torch.manual_seed(1)
    expected = draw(before, 200, {})
    torch.manual_seed(1)
    made = draw(after, 200, {})
    np.testing.assert_array_equal(made.codes, expected.codes)
    np.testing.assert_array_equal(made.scalars, expected.scalars)


@pytest.mark.parametrize("kind", KINDS)
def test_loading_leaves_torchs_own_generator_alone(kind: str) -> None:
    arrays = to_arrays(network(kind))
    before = torch.get_rng_state()
    from_arrays(arrays, LAYOUT)
    assert torch.equal(torch.get_rng_state(), before)


def test_only_what_rows_are_drawn_from_is_kept() -> None:
    tvae, ctgan = to_arrays(network("tvae")), to_arrays(network("ctgan"))
    linear = {f"network.{layer}.{part}" for layer in ("layers.0", "layers.1", "output") for part in ("weight", "bias")}
    seen = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    assert set(tvae) == {*linear, "deviations"}
    norms = {f"network.norms.{place}.{part}" for place in (0, 1) for part in seen}
    assert set(ctgan) == {*linear, *norms, "shares.0", "shares.1"}
    assert max(array.size for array in ctgan.values()) == (4 + 7 + 6 + 5) * LAYOUT.width


def without(name: str) -> Callable[[Arrays], None]:
    return lambda arrays: arrays.__delitem__(name)


def put(name: str, change: Callable[[np.ndarray], Any]) -> Callable[[Arrays], None]:
    return lambda arrays: arrays.update({name: np.asarray(change(arrays[name]))})


def spoilt(number: float) -> Callable[[np.ndarray], np.ndarray]:
    def spoil(array: np.ndarray) -> np.ndarray:
        array = array.copy()
        array.flat[-1] = number
        return array

    return spoil


BOTH: dict[str, Callable[[Arrays], None]] = {
    "nothing": lambda arrays: arrays.clear(),
    "no first layer": without("network.layers.0.weight"),
    "no second layer": without("network.layers.1.weight"),
    "no bias": without("network.layers.0.bias"),
    "no output": without("network.output.weight"),
    "no bias of the output": without("network.output.bias"),
    "an array too many": lambda arrays: arrays.update(rows=np.zeros((5, LAYOUT.width))),
    "a weight too many": lambda arrays: arrays.update({"network.layers.2.weight": np.zeros((5, 5), dtype=np.float32)}),
    "a scalar for a layer": put("network.layers.0.weight", lambda _: np.float32(1)),
    "a line for a layer": put("network.layers.0.weight", lambda array: array[0]),
    "an empty layer": put("network.layers.0.weight", lambda array: array[:0]),
    "a layer of three dimensions": put("network.layers.0.weight", lambda array: array[None]),
    "a layer cut short": put("network.layers.1.weight", lambda array: array[:, 1:]),
    "a layer with fewer outputs": put("network.layers.0.weight", lambda array: array[1:]),
    "an output cut short": put("network.output.weight", lambda array: array[:-1]),
    "an output that is turned over": put("network.output.weight", np.transpose),
    "NaN": put("network.output.weight", spoilt(np.nan)),
    "infinity": put("network.layers.1.bias", spoilt(np.inf)),
}
OF_ONE: dict[str, dict[str, Callable[[Arrays], None]]] = {
    "tvae": {
        "no deviations": without("deviations"),
        "too many deviations": put("deviations", lambda array: np.append(array, array)),
        "deviations of two dimensions": put("deviations", lambda array: array[None]),
        "a deviation below zero": put("deviations", spoilt(-0.1)),
        "deviations that are no numbers": put("deviations", spoilt(np.nan)),
        "shares beside deviations": lambda arrays: arrays.update({"shares.0": SHARES[0]}),
    },
    "ctgan": {
        "no shares": without("shares.1"),
        "shares too many": lambda arrays: arrays.update({"shares.2": SHARES[1]}),
        "shares cut short": put("shares.0", lambda array: array[:-1]),
        "shares of two dimensions": put("shares.0", lambda array: array[:, None]),
        "a share below zero": put("shares.0", spoilt(-0.1)),
        "shares that are all zero": put("shares.1", np.zeros_like),
        "shares that are no numbers": put("shares.1", spoilt(np.nan)),
        "no norm": without("network.norms.0.running_var"),
        "a norm below zero": put("network.norms.0.running_var", spoilt(-1.0)),
        "a norm cut short": put("network.norms.1.running_mean", lambda array: array[1:]),
        "deviations beside shares": lambda arrays: arrays.update(deviations=np.zeros(1, dtype=np.float32)),
    },
}
CASES = [(kind, damage) for kind in KINDS for damage in {**BOTH, **OF_ONE[kind]}]


@pytest.mark.parametrize(("kind", "damage"), CASES, ids=lambda part: str(part))
def test_damaged_arrays_are_refused(kind: str, damage: str) -> None:
    arrays = to_arrays(network(kind))
    {**BOTH, **OF_ONE[kind]}[damage](arrays)
    with pytest.raises((ValueError, KeyError, IndexError)):
        from_arrays(arrays, LAYOUT)


def test_an_input_narrower_than_the_conditions_is_refused() -> None:
    arrays = to_arrays(network("ctgan", (6,)))
    arrays["network.layers.0.weight"] = arrays["network.layers.0.weight"][:, 6:]
    arrays["network.output.weight"] = arrays["network.output.weight"][:, 6:]
    with pytest.raises(ValueError, match="noise"):
        from_arrays(arrays, LAYOUT)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "layout",
    [
        Layout((Span("a", 4, True),)),
        Layout((Span("a", 4, True), Span("n", 3, False), Span("b", 2, True)), ("n",)),
        Layout((Span("a", 4, True), Span("n", 4, True), Span("b", 3, True)), ()),
        Layout((Span("a", 4, True), Span("n", 2, False), Span("b", 3, False)), ("n", "b")),
    ],
)
def test_the_arrays_of_another_layout_are_refused(kind: str, layout: Layout) -> None:
    with pytest.raises((ValueError, KeyError)):
        from_arrays(to_arrays(network(kind)), layout)
