"""How much one unit of privacy may contribute: at most k rows of each entity, chosen by a keyed hash.

Source: bounding user contribution as in Wilson et al. 2020 (1909.01917).
"""

import hashlib
import os

import numpy as np
import pandas as pd

from synth.schema import Schema
from synth.split import row_keys


def bound_contributions(train: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The table with at most `max_rows_per_unit` rows of each entity; unchanged where the unit is a row.

    Which rows stay depends on the entity's own rows alone: each is ranked by a keyed hash of its entity, its content
    and, among equal rows, its turn. The key comes from the operating system and is forgotten. A row without an entity
    belongs to nobody whose contribution could be bounded, so it contributes nothing.

    Args:
        train: *Sensitive*. Conforming to the schema.
        schema: names the entity and k.
    """
    if schema.entity is None:
        return train
    train = train[train[schema.entity].notna()].reset_index(drop=True)
    entities = pd.factorize(train[schema.entity])[0]
    keys = row_keys(train, [name for name in schema.kept if name != schema.entity])
    turns = pd.Series(keys).groupby([entities, keys]).cumcount().to_numpy()
    secret = os.urandom(32)
    rows = zip(train[schema.entity], keys, turns, strict=True)
    hashes = np.array([_hash(secret, *row) for row in rows], dtype=np.int64)
    rank = pd.Series(hashes).groupby(entities).rank(method="first").to_numpy()
    return train[rank <= schema.max_rows_per_unit].reset_index(drop=True)


def _hash(secret: bytes, entity: object, key: object, turn: object) -> int:
    digest = hashlib.blake2b(f"{entity}\0{key}\0{turn}".encode(), digest_size=6, key=secret).digest()
    return int.from_bytes(digest, "little")
