"""Why one generator and not another, in sentences with numbers."""

import json
from collections.abc import Mapping
from typing import Any, Protocol

from synth.generators.auto import LEAST_SIGNAL
from synth.generators.forecast import Noise, Outlook
from understudy.console import duration

DROWNED = 0.4
"""A pair that noise alone is expected to move by more, as a total variation, says little of the table."""
AGAINST_NETWORKS = (
    "ctgan and tvae are not among the options: on Adult, with 26,048 rows to fit, a model trained on synthetic rows at "
    "epsilon 1 has an AUC of about 0.89 with ctgan and 0.88 with tvae, where aim has 0.905 and real rows have 0.924"
)
"""Why no network, whatever the schema: no rule says what one makes of a table, and this is what was measured."""


def without_epsilon(generator: str) -> str:
    """The default of a fit that names no epsilon, and what that means."""
    return (
        f"without epsilon the default is {generator}, which promises nothing: its table may repeat what single rows say"
    )


class Choice(Protocol):
    """A generator to choose, as far as reasons go."""

    @property
    def outlook(self) -> Outlook:
        """What to expect of it."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Those that differ from its defaults."""


def for_aim(option: Choice) -> list[str]:
    """Why aim."""
    n_columns, found = len(option.outlook.sizes), option.outlook
    return [
        f"aim measures {found.n_marginals} marginals of two columns or more, and {n_columns - 1} pairs would tie the "
        f"{n_columns} columns together: what is left goes to relations that a tree leaves out",
        _noise_sentence(found),
    ]


def for_classes(option: Choice) -> list[str]:
    """Why latent classes."""
    n_columns, outlook = len(option.outlook.sizes), option.outlook
    n_pairs = n_columns * (n_columns - 1) // 2
    return [
        f"latent_class measures all {n_pairs} pairs of {n_columns} columns at once, and "
        f"{outlook.n_marginals - n_pairs} marginals beside them: no tree has to leave a pair out",
        _noise_sentence(outlook),
    ]


def against_pairs(signal: float) -> str:
    """Why no model of pairs, where the units are so many standard deviations of a pair's noise."""
    return (
        f"pairs drown in noise: all units are {signal:.2g} standard deviations of the noise of a pair, and a model of "
        f"pairs takes {LEAST_SIGNAL:g}"
    )


def limited(before: Choice, after: Choice) -> list[str]:
    """Why smaller than it comes; nothing where it is not."""
    if before is after:
        return []
    return [
        f"as it comes, {before.outlook.generator} would take about {_cost(before.outlook)}; with {settings_of(after)} "
        f"it takes about {_cost(after.outlook)}"
    ]


def against_aim(option: Choice) -> list[str]:
    """Why not aim."""
    found, needed = option.outlook, len(option.outlook.sizes) - 1
    if found.n_marginals < needed:
        return [
            f"the budget lets aim measure {found.n_marginals} marginals, fewer than the {needed} pairs that tie "
            f"{needed + 1} columns together"
        ]
    if found.tree is None or found.tree.error > DROWNED:
        return [f"a typical round of aim is too noisy: {_drowned(found.tree)}"]
    return [f"aim would take about {_cost(found)}, even with a smaller model"]


def for_mst(option: Choice, before: Choice) -> list[str]:
    """Why mst, and why set otherwise where it is."""
    found = option.outlook
    reasons = [
        f"mst measures {found.n_marginals} pairs, just as many as tie the columns together",
        _noise_sentence(found),
    ]
    if option is not before:
        assert found.tree is not None
        reasons.append(
            f"with the default number of bins {_drowned(before.outlook.tree)}; with {settings_of(option)} that falls "
            f"to {found.tree.error:.2g}, at the price of coarser numbers and times"
        )
    return reasons


def against_mst(option: Choice) -> list[str]:
    """Why not mst."""
    if option.outlook.tree is None or option.outlook.tree.error <= DROWNED:
        return [f"mst would take about {_cost(option.outlook)}"]
    return [f"even a tree's pairs drown in noise, with the fewest bins tried too: {_drowned(option.outlook.tree)}"]


def _noise_sentence(found: Outlook) -> str:
    assert found.tree is not None
    typical = (
        "" if found.pair is None else f", and a typical pair of {_shape(found.pair)} one of {found.pair.error:.2g}"
    )
    return (
        f"sigma of a measured count is {found.tree.sigma:.3g} rows; a pair of {_shape(found.tree)}, as in the tree "
        f"with the fewest cells, then has an expected total variation of {found.tree.error:.2g} from noise alone"
        f"{typical}"
    )


def _drowned(noise: Noise | None) -> str:
    assert noise is not None
    return (
        f"sigma of a count is {noise.sigma:.3g} rows, and a pair of {_shape(noise)}, as in the tree with the fewest "
        f"cells, has an expected total variation of {noise.error:.2g} from noise alone (limit {DROWNED:g})"
    )


def _shape(noise: Noise) -> str:
    return f"{' x '.join(str(codes) for codes in noise.codes)} codes"


def size(error: float) -> str:
    """An error in words."""
    return f"an expected total variation of {error:.2g}"


def settings_of(option: Choice) -> str:
    """The settings as they stand in a job file."""
    return ", ".join(f"{key} = {json.dumps(value)}" for key, value in option.settings.items())


def _cost(found: Outlook) -> str:
    return f"{duration(found.seconds)} and {found.memory_mb:.0f} MB"
