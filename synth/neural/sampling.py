"""Sampling of encoded rows from a trained network, also of rows with given values, and its weights as named arrays.

A network may be matched to released one-way marginals, by what it draws: this costs no budget, and single columns then
come out as measured.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from synth.errors import JobError
from synth.neural.networks import Decoder, GeneratorNetwork, Spans
from synth.transforms.encoding import Match
from synth.transforms.layout import Encoded, Layout

BATCH = 8_192  # rows that a network makes at once
N_TRIED = 5 * BATCH
"""Rows that tell how likely a row is at best to hold what is asked for, and that one such row may take on average."""
PATIENCE = 20
"""So many rows more than are asked for may take as many draws each: a few rows may have bad luck."""
SCALAR_DEVIATION = 0.025
"""The tolerance of a scalar that is asked for: a tenth of its bell's standard deviation."""


class Network(Protocol):
    """A trained network that rows are drawn from."""

    @property
    def layout(self) -> Layout:
        """Of the rows."""

    @property
    def deviations(self) -> Tensor:
        """Of each scalar about what the network says, shape (n_scalars,)."""

    def raw(self, n: int, match: Mapping[int, Match]) -> Tensor:
        """Logits and scalars before tanh, shape (n, layout.width), of rows that may be asked to match."""


@dataclass(frozen=True)
class CtganNetwork:
    """A generator, and how often each code of a column that conditions may name is asked for.

    DEVIATES: the library `ctgan` asks for categories as often as their logarithms say, and so shows rare ones too
    often; here, as often as they occurred.
    """

    layout: Layout
    generator: GeneratorNetwork
    shares: Sequence[NDArray[np.float64]]

    @property
    def deviations(self) -> Tensor:
        """None: a generator gives the scalar itself."""
        return torch.zeros(len(self.layout.scalars))

    def raw(self, n: int, match: Mapping[int, Match]) -> Tensor:
        """Rows on condition of one column each: one of those asked for, else any."""
        width = sum(len(share) for share in self.shares)
        noise = torch.randn(n, self.generator.layers[0].in_features - width)
        raw: Tensor = self.generator(torch.cat([noise, self._conditions(n, match)], dim=1) if width else noise)
        return raw

    def _conditions(self, n: int, match: Mapping[int, Match]) -> Tensor:
        whole = self.layout.whole
        asked = [place for place, index in enumerate(whole) if index in match]
        weights = [torch.from_numpy(share) for share in self.shares]
        for place in asked:
            weights[place] = torch.from_numpy(match[whole[place]].weights).double()
        among = torch.tensor(asked or list(range(len(whole))))
        column = among[torch.randint(len(among), (n,))]
        starts = np.concatenate([[0], np.cumsum([len(weight) for weight in weights])])
        hot = torch.zeros(n, int(starts[-1]))
        for place in among.tolist():
            rows = (column == place).nonzero().squeeze(1)
            if len(rows):
                hot[rows, int(starts[place]) + torch.multinomial(weights[place], len(rows), replacement=True)] = 1.0
        return hot


@dataclass(frozen=True)
class TvaeNetwork:
    """A decoder, and how far scalars lie from what it says. `deviations`: shape (n_scalars,)."""

    layout: Layout
    decoder: Decoder
    deviations: Tensor

    def raw(self, n: int, match: Mapping[int, Match]) -> Tensor:
        """Rows from anywhere in the latent space; what is asked for is a matter of choosing among them."""
        d_latent = (*self.decoder.layers, self.decoder.output)[0].in_features
        raw: Tensor = self.decoder(torch.randn(n, d_latent))
        return raw


def draw(network: Network, n: int, match: Mapping[int, Match]) -> Encoded:
    """Encoded rows.

    Where values are asked for, logits of rows that are not settled yet are kept with the likelihood of these values.
    Given its logits, the columns of a row are independent. So kept rows have the model's own distribution given the
    values. Randomness comes from torch's own generators.
    """
    with torch.inference_mode():
        return _joined(_draw(network, n, match))


def _draw(network: Network, n: int, match: Mapping[int, Match]) -> list[Encoded]:
    if not all(asked.weights.any() for asked in match.values()):
        raise _no_such_rows()
    spans = Spans(network.layout)
    tried = _batches(network, N_TRIED, match) if match else ()
    most = max((float(_likelihood(raw, network, spans, match).max()) for raw in tried), default=1.0)
    if most <= 0:
        raise _no_such_rows()
    parts: list[Encoded] = []
    left = n
    for raw in _batches(network, n if not match else N_TRIED * (n + PATIENCE), match):
        chosen = raw
        if match:
            chosen = raw[torch.rand(len(raw), dtype=torch.float64) * most < _likelihood(raw, network, spans, match)]
        parts.append(_settled(chosen[:left], network, spans))
        left -= len(parts[-1])
        if left == 0:
            return parts
    raise _no_such_rows()


def _no_such_rows() -> JobError:
    return JobError(
        "next to no row that the model draws holds what is given; give values that go together, or fewer of them"
    )


def _batches(network: Network, n: int, match: Mapping[int, Match]) -> Iterator[Tensor]:
    for start in range(0, n, BATCH):
        yield network.raw(min(BATCH, n - start), match)


def _settled(raw: Tensor, network: Network, spans: Spans) -> Encoded:
    """Codes and scalars drawn from what a network says."""
    n_codes = network.layout.n_codes
    codes = spans.draw(raw[:, :n_codes])
    scalars = torch.tanh(raw[:, n_codes:])
    scalars = (scalars + network.deviations * torch.randn_like(scalars)).clamp(-1, 1)
    return Encoded(codes.to(torch.int32).numpy(), scalars.numpy())


def _likelihood(raw: Tensor, network: Network, spans: Spans, match: Mapping[int, Match]) -> Tensor:
    """The likelihood of the values that are asked for, given each row's logits, up to a factor; shape (n,), float64."""
    n_codes = network.layout.n_codes
    shares = spans.softmax(raw[:, :n_codes])
    scalars = torch.tanh(raw[:, n_codes:])
    likelihood = torch.ones(len(raw), dtype=torch.float64)
    for place, asked in match.items():
        start = int(network.layout.offsets[place])
        mass = shares[:, start : start + network.layout.sizes[place]].double() * torch.from_numpy(asked.weights)
        likelihood *= (mass * _closeness(scalars, network, place, asked)).sum(1)
    return likelihood


def _closeness(scalars: Tensor, network: Network, place: int, asked: Match) -> Tensor:
    """The nearness of each row's scalar to the one each code asks for, in (0, 1]; 1 for a code that asks for none."""
    if asked.scalars is None:
        return torch.ones(1, len(asked.weights), dtype=torch.float64)
    index = network.layout.scalars.index(network.layout.spans[place].column)
    deviation = max(float(network.deviations[index]), SCALAR_DEVIATION)
    off = (scalars[:, index, None].double() - torch.from_numpy(asked.scalars)) / deviation
    return torch.exp(-0.5 * off.square()).nan_to_num(nan=1.0)


def _joined(parts: Sequence[Encoded]) -> Encoded:
    return Encoded(np.concatenate([part.codes for part in parts]), np.concatenate([part.scalars for part in parts]))


N_MATCHED_ROWS, N_MATCHING_ROUNDS = 20_000, 30
LEAST_SHARE = 1e-6  # keeps the logarithm of an empty code finite


def match_one_way(network: CtganNetwork | TvaeNetwork, shares: Tensor) -> None:
    """Shift the output's bias until the codes of drawn rows are as frequent as was released.

    Every span is fitted on the same drawn logits in turn with all others, which is iterative proportional fitting of
    the shifts. A code that comes out too often is lowered by the logarithm of its excess.
    `shares`: released, of each code within its span, shape (n_codes,).
    """
    spans = Spans(network.layout)
    wanted = shares.float().clamp_min(LEAST_SHARE).log()
    with torch.inference_mode():
        logits = network.raw(N_MATCHED_ROWS, {})
        shift = torch.zeros_like(wanted)
        for _ in range(N_MATCHING_ROUNDS):
            shift += wanted - spans.softmax(logits + shift).mean(0).clamp_min(LEAST_SHARE).log()
    output = network.decoder.output if isinstance(network, TvaeNetwork) else network.generator.output
    with torch.no_grad():
        output.bias += shift


Module = TypeVar("Module", bound=nn.Module)
NETWORK, SHARES, DEVIATIONS = "network.", "shares.", "deviations"


def to_arrays(network: CtganNetwork | TvaeNetwork) -> dict[str, NDArray[Any]]:
    """Everything that rows are drawn from, by name."""
    if isinstance(network, CtganNetwork):
        extra = {f"{SHARES}{place}": share for place, share in enumerate(network.shares)}
        return {**_weights(network.generator), **extra}
    return {**_weights(network.decoder), DEVIATIONS: network.deviations.numpy()}


def from_arrays(arrays: Mapping[str, NDArray[Any]], layout: Layout) -> CtganNetwork | TvaeNetwork:
    """A network from what `to_arrays` gave; its widths are those of the arrays."""
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise ValueError("weights are finite numbers")
    weights = {name.removeprefix(NETWORK): array for name, array in arrays.items() if name.startswith(NETWORK)}
    others = set(arrays) - {NETWORK + name for name in weights}
    widths = _widths(weights)
    if DEVIATIONS in arrays:
        decoder = _filled(Decoder, (*widths, layout.width), weights)
        return TvaeNetwork(layout, decoder, _deviations(arrays, others, layout))
    generator = _filled(GeneratorNetwork, (*widths, layout.width), weights)
    shares = _shares(arrays, others, layout)
    if widths[0] <= sum(map(len, shares)):
        raise ValueError("a generator takes noise beside its condition")
    return CtganNetwork(layout, generator, shares)


def _widths(weights: Mapping[str, NDArray[Any]]) -> tuple[int, list[int]]:
    """Of the input, and of each hidden layer."""
    layers = [name for name in (f"layers.{place}.weight" for place in range(len(weights))) if name in weights]
    if not layers or any(weights[name].ndim != 2 or weights[name].size == 0 for name in layers):
        raise ValueError("a network has hidden layers, each a matrix")
    return weights["layers.0.weight"].shape[1], [len(weights[name]) for name in layers]


def _deviations(arrays: Mapping[str, NDArray[Any]], others: set[str], layout: Layout) -> torch.Tensor:
    deviations = arrays[DEVIATIONS].astype(np.float32)
    if others != {DEVIATIONS} or deviations.shape != (len(layout.scalars),) or (deviations < 0).any():
        raise ValueError("there is one deviation for each scalar")
    return torch.from_numpy(deviations)


def _shares(
    arrays: Mapping[str, NDArray[Any]], others: set[str], layout: Layout
) -> tuple[NDArray[np.float64], ...]:  # fmt: skip
    sizes = [layout.sizes[place] for place in layout.whole]
    names = [f"{SHARES}{place}" for place in range(len(sizes))]
    if others != set(names):
        raise ValueError("there are shares for each column that a condition may name")
    shares = tuple(arrays[name].astype(np.float64) for name in names)
    for share, size in zip(shares, sizes, strict=True):
        if share.shape != (size,) or (share < 0).any() or share.sum() <= 0:
            raise ValueError("there is a share for each code that a condition may name")
    return shares


def _weights(network: nn.Module) -> dict[str, NDArray[Any]]:
    return {f"{NETWORK}{name}": tensor.detach().cpu().numpy() for name, tensor in network.state_dict().items()}


def _filled(
    kind: Callable[..., Module], widths: tuple[int, list[int], int], weights: Mapping[str, NDArray[Any]]
) -> Module:
    with torch.device("meta"):  # no draw of first weights, so that torch's own generators are left as they were
        network = kind(*widths)
    network.to_empty(device="cpu")
    try:
        network.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    except RuntimeError as error:
        raise ValueError("weights fit the network") from error
    if any((array < 0).any() for name, array in weights.items() if name.endswith("running_var")):
        raise ValueError("no variance is below zero")
    network.eval().requires_grad_(False)
    return network
