"""Models with DP on real rows, as alternatives to a private table: a regression, a student of PATE, k-means.

Who wants one model or groups only need not release a table. Each alternative spends the table's whole claim on itself
and stands beside what the same kind of model learns from synthetic rows. It looks at columns with a public domain
alone, and its settings are the same for every table.

Nothing of them is released, and nor are their scores: like every number of an evaluation these read real rows outside
the guarantee, and no budget is charged. Their noise is seeded, as that of no release may be.
"""

_HERE = "understudy.extras.dp_models"
BRINGS = {
    "measure": {
        "utility.dp_alternative": f"{_HERE}.regression",
        "utility.pate_alternative": f"{_HERE}.pate",
        "utility.clusters.dp_alternative": f"{_HERE}.groups",
    }
}
