"""Sampling of encoded rows from a trained network, also of rows with given values, and its weights as named arrays.

A network is matched to one-way marginals by what it draws, so that single columns come out as counted. Of a private fit
they are released ones: this costs no budget.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from synth.errors import JobError
from synth.neural.encoding import Encoded, Layout
from synth.neural.modes import Match
from synth.neural.networks import Decoder, GeneratorNetwork, Spans

BATCH = 8_192  # rows that a network makes at once
SCALAR_DEVIATION = 0.025  # the tolerance of a scalar that is asked for: a tenth of its bell's standard deviation


@dataclass(frozen=True)
class RowMatch:
    """What is asked of a span in each row.
    `weights`: of the codes, shape (n_values, size). `scalars`: the same, of those; `None`: the column has none.
    `which`: the value of each row, shape (n,).
    """

    weights: NDArray[np.float64]
    scalars: NDArray[np.float64] | None
    which: NDArray[np.intp]

    @classmethod
    def of(cls, matches: Sequence[Match], which: NDArray[np.intp]) -> Self:
        if not all(match.weights.any() for match in matches):
            raise JobError(
                "no row that the model draws holds what is given; give values that go together, or fewer of them"
            )
        scalars = [match.scalars for match in matches if match.scalars is not None]
        return cls(np.stack([match.weights for match in matches]), np.stack(scalars) if scalars else None, which)

    def taken(self, rows: NDArray[np.intp] | slice) -> "RowMatch":
        return replace(self, which=self.which[rows])


@dataclass(frozen=True)
class CtganNetwork:
    """A generator, and how often each code of a column that conditions may name is asked for.

    DEVIATES: the library `ctgan` asks by the logarithms of counts, and so shows rare categories too often.
    """

    layout: Layout
    generator: GeneratorNetwork
    shares: Sequence[NDArray[np.float64]]

    @property
    def deviations(self) -> Tensor:
        """Of each scalar about what the network says, shape (n_scalars,): none, a generator gives the scalar itself."""
        return torch.zeros(len(self.layout.scalars))

    def raw(self, n: int, match: Mapping[int, RowMatch]) -> Tensor:
        """Logits and scalars before tanh, shape (n, layout.width), of rows that may be asked to match.

        Each is on condition of one column: one of those asked for, else any.
        """
        width = sum(len(share) for share in self.shares)
        noise = torch.randn(n, self.generator.layers[0].in_features - width)
        raw: Tensor = self.generator(torch.cat([noise, self._conditions(n, match)], dim=1) if width else noise)
        return raw

    def _conditions(self, n: int, match: Mapping[int, RowMatch]) -> Tensor:
        whole = self.layout.whole
        asked = [column for column, index in enumerate(whole) if index in match]
        among = torch.tensor(asked or list(range(len(whole))))
        columns = among[torch.randint(len(among), (n,))]
        starts = np.concatenate([[0], np.cumsum([len(share) for share in self.shares])])
        hot = torch.zeros(n, int(starts[-1]))
        for column in among.tolist():
            rows = (columns == column).nonzero().squeeze(1)
            if len(rows):
                known = match.get(whole[column])
                weights = self.shares[column][None] if known is None else known.weights[known.which[rows.numpy()]]
                codes = torch.multinomial(torch.from_numpy(weights).expand(len(rows), -1), 1).squeeze(1)
                hot[rows, int(starts[column]) + codes] = 1.0
        return hot


@dataclass(frozen=True)
class TvaeNetwork:
    """A decoder, and how far scalars lie from what it says. `deviations`: shape (n_scalars,)."""

    layout: Layout
    decoder: Decoder
    deviations: Tensor

    def raw(self, n: int, match: Mapping[int, RowMatch]) -> Tensor:
        """Rows from anywhere in the latent space; what is asked for is a matter of choosing among them."""
        d_latent = (*self.decoder.layers, self.decoder.output)[0].in_features
        raw: Tensor = self.decoder(torch.randn(n, d_latent))
        return raw


Network = CtganNetwork | TvaeNetwork


def draw(network: Network, n: int) -> Encoded:
    """Encoded rows. Randomness comes from torch's own generators."""
    parts = []
    for start in range(0, max(n, 1), BATCH):
        rows = np.arange(min(BATCH, n - start))
        parts.append(settle(network, candidates(network, {}, len(rows))[0], rows))
    return Encoded(np.concatenate([part.codes for part in parts]), np.concatenate([part.scalars for part in parts]))


def candidates(network: Network, match: Mapping[int, RowMatch], n: int) -> tuple[Tensor, NDArray[np.float64]]:
    """Logits of rows that are not settled yet, and the log-likelihood of what is asked of each.

    Given its logits, the columns of a row are independent. So rows chosen by these have the model's own distribution
    given what is asked.
    """
    spans, raws, weights = Spans(network.layout), [], []
    with torch.inference_mode():
        for start in range(0, max(n, 1), BATCH):
            rows = slice(start, min(start + BATCH, n))
            asked = {index: each.taken(rows) for index, each in match.items()}
            raws.append(network.raw(rows.stop - start, asked))
            weights.append(_log_likelihood(raws[-1], network, spans, asked))
        return torch.cat(raws), torch.cat(weights).numpy()


def settle(network: Network, raw: Tensor, rows: NDArray[np.intp]) -> Encoded:
    n_codes, spans = network.layout.n_codes, Spans(network.layout)
    with torch.inference_mode():
        raw = raw[torch.from_numpy(rows)]
        codes = spans.draw(raw[:, :n_codes])
        scalars = torch.tanh(raw[:, n_codes:])
        scalars = (scalars + network.deviations * torch.randn_like(scalars)).clamp(-1, 1)
        return Encoded(codes.to(torch.int32).numpy(), scalars.numpy())


def _log_likelihood(raw: Tensor, network: Network, spans: Spans, match: Mapping[int, RowMatch]) -> Tensor:
    """Of what is asked of each row, given its logits, up to a term; shape (n,), float64."""
    if not match:
        return torch.zeros(len(raw), dtype=torch.float64)
    n_codes = network.layout.n_codes
    shares = spans.softmax(raw[:, :n_codes])
    scalars = torch.tanh(raw[:, n_codes:])
    likelihood = torch.zeros(len(raw), dtype=torch.float64)
    for index, asked in match.items():
        start = int(network.layout.offsets[index])
        weights = torch.from_numpy(asked.weights[asked.which])
        mass = shares[:, start : start + network.layout.sizes[index]].double() * weights
        likelihood += (mass * _closeness(scalars, network, index, asked)).sum(1).log()
    return likelihood


def _closeness(scalars: Tensor, network: Network, span: int, asked: RowMatch) -> Tensor:
    """The nearness of each row's scalar to the one each code asks for, in (0, 1]; 1 for a code that asks for none."""
    if asked.scalars is None:
        return torch.ones(1, asked.weights.shape[1], dtype=torch.float64)
    index = network.layout.scalars.index(network.layout.spans[span].column)
    deviation = max(float(network.deviations[index]), SCALAR_DEVIATION)
    off = (scalars[:, index, None].double() - torch.from_numpy(asked.scalars[asked.which])) / deviation
    return torch.exp(-0.5 * off.square()).nan_to_num(nan=1.0)


N_MATCHED_ROWS, N_MATCHING_ROUNDS = 20_000, 30
LEAST_SHARE = 1e-6  # keeps the logarithm of an empty code finite


def match_one_way(network: Network, shares: Tensor) -> None:
    """Shift the output's bias until the codes of drawn rows are as frequent as asked.

    Every span is fitted on the same drawn logits in turn with all others, which is iterative proportional fitting of
    the shifts. A code that comes out too often is lowered by the logarithm of its excess.
    `shares`: of each code within its span, shape (n_codes,); of a private fit those that were released.
    """
    spans, n_codes = Spans(network.layout), network.layout.n_codes
    wanted = shares.float().clamp_min(LEAST_SHARE).log()
    with torch.inference_mode():
        logits = network.raw(N_MATCHED_ROWS, {})[:, :n_codes]
        shift = torch.zeros_like(wanted)
        for _ in range(N_MATCHING_ROUNDS):
            shift += wanted - spans.softmax(logits + shift).mean(0).clamp_min(LEAST_SHARE).log()
    output = network.decoder.output if isinstance(network, TvaeNetwork) else network.generator.output
    with torch.no_grad():
        output.bias[:n_codes] += shift


Module = TypeVar("Module", bound=nn.Module)
NETWORK, SHARES, DEVIATIONS = "network.", "shares.", "deviations"


def to_arrays(network: Network) -> dict[str, NDArray[Any]]:
    if isinstance(network, CtganNetwork):
        extra = {f"{SHARES}{index}": share for index, share in enumerate(network.shares)}
        return {**_weights(network.generator), **extra}
    return {**_weights(network.decoder), DEVIATIONS: network.deviations.numpy()}


def from_arrays(arrays: Mapping[str, NDArray[Any]], layout: Layout) -> Network:
    """A network from what `to_arrays` gave; its widths are those of the arrays."""
    weights = {name.removeprefix(NETWORK): array for name, array in arrays.items() if name.startswith(NETWORK)}
    others = {name: array for name, array in arrays.items() if not name.startswith(NETWORK)}
    layers = [weights[name] for name in (f"layers.{index}.weight" for index in range(len(weights))) if name in weights]
    variances = [array for name, array in weights.items() if name.endswith("running_var")]
    _require(all(np.isfinite(array).all() for array in arrays.values()))
    _require(bool(layers) and all(layer.ndim == 2 and layer.size > 0 for layer in layers))
    _require(not any((array < 0).any() for array in (*others.values(), *variances)))
    widths = layers[0].shape[1], [len(layer) for layer in layers], layout.width
    if DEVIATIONS in others:
        deviations = others[DEVIATIONS].astype(np.float32)
        _require(len(others) == 1 and deviations.shape == (len(layout.scalars),))
        return TvaeNetwork(layout, _filled(Decoder, widths, weights), torch.from_numpy(deviations))
    sizes = [layout.sizes[index] for index in layout.whole]
    shares = tuple(others[f"{SHARES}{index}"].astype(np.float64) for index in range(len(sizes)))
    _require(len(others) == len(sizes) and widths[0] > sum(sizes))  # noise beside the condition
    _require(all(share.shape == (n,) and share.sum() > 0 for share, n in zip(shares, sizes, strict=True)))
    return CtganNetwork(layout, _filled(GeneratorNetwork, widths, weights), shares)


def _require(is_sound: bool) -> None:
    if not is_sound:
        raise ValueError("arrays are those of a network and its layout, and finite")


def _weights(network: nn.Module) -> dict[str, NDArray[Any]]:
    return {f"{NETWORK}{name}": tensor.detach().cpu().numpy() for name, tensor in network.state_dict().items()}


def _filled(
    kind: Callable[..., Module], widths: tuple[int, list[int], int], weights: Mapping[str, NDArray[Any]]
) -> Module:
    with torch.device("meta"):  # no draw of first weights, so that torch's own generators are left as they were
        network = kind(*widths)
    network.to_empty(device="cpu")
    network.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    network.eval().requires_grad_(False)
    return network
