"""A trained network brought to marginals that were released: free, and single columns then come out as measured."""

import torch
from torch import Tensor

from synth.neural.drawing import CtganNetwork, TvaeNetwork
from synth.neural.spans import Spans

N_DRAWN, N_ROUNDS = 20_000, 30
LEAST_SHARE = 1e-6
"""Keeps the logarithm of an empty code finite."""


def match_one_way(network: CtganNetwork | TvaeNetwork, shares: Tensor) -> None:
    """Shift the output's bias until the codes of drawn rows are as frequent as was released.

    Every span is fitted on the same drawn logits in turn with all others, which is iterative proportional fitting of
    the shifts: a code that comes out too often is lowered by the logarithm of how much.

    Args:
        network: trained on spans alone; changed in place.
        shares: released, of each code within its span, shape (n_codes,).
    """
    spans = Spans(network.layout)
    wanted = shares.float().clamp_min(LEAST_SHARE).log()
    with torch.inference_mode():
        logits = network.raw(N_DRAWN, {})
        shift = torch.zeros_like(wanted)
        for _ in range(N_ROUNDS):
            shift += wanted - spans.softmax(logits + shift).mean(0).clamp_min(LEAST_SHARE).log()
    output = network.decoder.output if isinstance(network, TvaeNetwork) else network.generator.output
    with torch.no_grad():
        output.bias += shift
