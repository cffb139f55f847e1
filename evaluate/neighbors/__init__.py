"""One space for all distances, and the one search for nearest rows that every attack and every table shares."""

from evaluate.neighbors.exact_search import (
    LEAST,
    Neighbors,
    gower_nearest,
    gower_without_each,
    kept_search,
    nearest,
    search,
)
from evaluate.neighbors.space import Space, SpaceRows, embed, share_of, space_of

__all__ = [
    "LEAST", "Neighbors", "Space", "SpaceRows", "embed", "gower_nearest", "gower_without_each", "kept_search",
    "nearest", "search", "share_of", "space_of",
]  # fmt: skip
