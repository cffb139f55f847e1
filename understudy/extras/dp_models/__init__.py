"""Models with DP on real rows, as alternatives to a private table: a regression and k-means.

Who wants one model or groups only need not release a table. Each alternative spends the table's whole claim on itself
and stands beside what the same kind of model learns from synthetic rows. It looks at columns with a public domain
alone. Nothing of them is released: like every number of an evaluation their scores read real rows outside the
guarantee, no budget is charged, and their noise is seeded, as that of no release may be.
"""

_HERE = "understudy.extras.dp_models"
BRINGS = {
    "measure": {"utility.dp_alternative": f"{_HERE}.regression", "utility.clusters.dp_alternative": f"{_HERE}.groups"}
}
