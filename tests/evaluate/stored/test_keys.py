"""Keys that are brought from one engine to another are the same rows there."""

import ibis
import numpy as np
import pyarrow as pa

from evaluate.stored.keys import brought
from synth.stored.connection import StorageLocation, embedded


def test_many_rows_arrive_as_they_left() -> None:
    numbers = np.random.default_rng(0).integers(0, 300_000, 400_000)
    with embedded() as here, embedded() as there:
        given = here.create_table("given", pa.table({"key": numbers.astype(str), "n": numbers}))
        table = given.mutate(constant=ibis.literal(0, "int64"))
        asked = table.group_by("key").agg(n=table["n"].min(), constant=table["constant"].min(), many=table.count())
        place = StorageLocation(there, "there")
        found = brought(asked, StorageLocation(here, "here"), place)
        sums = found.agg(
            [found.count().name("rows"), found["many"].sum().name("many"), found["constant"].max().name("constant"),
             (found["key"].cast("int64") == found["n"]).all().name("same")]
        )  # fmt: skip
        expected = {"rows": len(np.unique(numbers)), "many": 400_000, "constant": 0, "same": True}
        assert place.fetch(sums).to_pylist() == [expected]
