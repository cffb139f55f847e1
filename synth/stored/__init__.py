"""Real tables that stay where they are stored (files larger than memory, databases): split, bounded, counted there.

::

    with open_table("visits/") as real:
        train, holdout = real.split(schema, holdout_share=0.2, seed=0)
        model = Mst(epsilon=1.0).fit(train, schema)

`address` and `opening` say where a table is, `connection` puts questions there, `errors` says what went wrong. `decode`
says what its cells stand for, `table` and `counts` count them, `row_hash` draws them.
"""

from synth.stored.opening import open_table
from synth.stored.row_hash import content_sums
from synth.stored.table import StoredTable

__all__ = ["StoredTable", "content_sums", "open_table"]
