"""Conditionals as plain data and arrays, and back: what is damaged is refused, nothing is run."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.trees.conditional import Boosters, Conditional, Marginal, Refinement, Stack
from synth.trees.forest import Forest

Arrays = Mapping[str, NDArray[Any]]


def described(conditional: Conditional, forests: list[Forest]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Plain data and arrays of a conditional.

    Args:
        conditional: to take apart.
        forests: of the model, to which its own are added; plain data name them by number.
    """

    def added(forest: Forest | None) -> int | None:
        if forest is None:
            return None
        forests.append(forest)
        return len(forests) - 1

    distribution = conditional.distribution
    content: dict[str, Any] = {"kind": type(distribution).__name__.lower()}
    arrays: dict[str, NDArray[Any]] = {f"place{column}": table for column, table in sorted(conditional.places.items())}
    if isinstance(distribution, Marginal):
        arrays["counts"] = distribution.counts
    else:
        arrays |= {"order": distribution.order, "nodes": distribution.nodes, "log_odds": distribution.log_odds}
        content["boosters"] = [added(forest) for forest in distribution.forests]
    if conditional.stack is not None:
        content["stack"] = [added(forest) for forest in conditional.stack.forests]
    if conditional.refinement is not None:
        content["refinement"] = added(conditional.refinement.tree)
        arrays["shapes"] = conditional.refinement.shapes
    return content, arrays


def restored(
    content: Mapping[str, Any], arrays: Arrays, forests: Sequence[Forest], size: int, n_features: int
) -> Conditional:
    """A conditional from what `described` gave.

    Args:
        content: plain data.
        arrays: of this conditional.
        forests: of the model.
        size: codes of the column.
        n_features: columns before it.

    Raises:
        ValueError, KeyError, TypeError: a part is missing or contradicts another; nothing was made.
    """
    stack = None
    if "stack" in content:
        stack = Stack(tuple(_forest(number, forests, n_features) for number in content["stack"]))
        if not stack.forests:
            raise ValueError("a stack has forests")
    width = n_features + (stack is not None)
    places = {int(name.removeprefix("place")): array for name, array in arrays.items() if name.startswith("place")}
    for table in places.values():
        _require(table, np.float64, 1)
    refinement = None
    if "refinement" in content:
        tree = _forest(content["refinement"], forests, width + 1, one_tree=True)
        shapes = _require(arrays["shapes"], np.float64, 2)
        if shapes.shape != (tree.n_leaves, 2) or (shapes <= 0).any():
            raise ValueError("parameters are not those of the leaves")
        refinement = Refinement(tree, shapes)
    if content["kind"] not in ("marginal", "boosters"):
        raise ValueError("there is no such distribution")
    is_marginal = content["kind"] == "marginal"
    distribution = _marginal(arrays, size) if is_marginal else _boosters(content, arrays, forests, size, width)
    return Conditional(distribution, places, stack, refinement)


def _marginal(arrays: Arrays, size: int) -> Marginal:
    counts = _require(arrays["counts"], np.float64, 1)
    if len(counts) != size or (counts < 0).any() or not counts.sum() > 0:
        raise ValueError("counts are not those of the codes")
    return Marginal(counts)


def _boosters(content: Mapping[str, Any], arrays: Arrays, forests: Sequence[Forest], size: int, width: int) -> Boosters:
    order, nodes = _require(arrays["order"], np.int32, 1), _require(arrays["nodes"], np.int32, 2)
    log_odds = _require(arrays["log_odds"], np.float64, 1)
    if len(order) < 2 or len(np.unique(order)) != len(order) or order.min() < 0 or order.max() >= size:
        raise ValueError("leaves are not codes")
    parts = {(0, len(order))}
    for first, middle, end in nodes.tolist():
        if (first, end) not in parts or not first < middle < end:
            raise ValueError("nodes do not halve what is left")
        parts = (parts - {(first, end)}) | {(first, middle), (middle, end)}
    if any(end - first != 1 for first, end in parts) or len(log_odds) != len(nodes):
        raise ValueError("nodes do not come to single codes")
    boosters = content["boosters"]
    if len(boosters) != len(nodes):
        raise ValueError("boosters are not those of the nodes")
    made = tuple(None if number is None else _forest(number, forests, width) for number in boosters)
    return Boosters(order, nodes, log_odds, made, size)


def _forest(number: Any, forests: Sequence[Forest], n_features: int, *, one_tree: bool = False) -> Forest:
    if type(number) is not int or not 0 <= number < len(forests):
        raise ValueError("there is no such forest")
    forest = forests[number]
    if forest.n_features != n_features or (one_tree and len(forest.sizes) != 1):
        raise ValueError("a forest is over other features")
    return forest


def _require(array: NDArray[Any], kind: type[Any], n_axes: int) -> NDArray[Any]:
    if array.dtype != kind or array.ndim != n_axes or (kind is np.float64 and not np.isfinite(array).all()):
        raise ValueError("an array is of another type or shape")
    return array
