"""One point of the neural benchmark, in a process of its own, and one line of JSON: the fields of a run.

``python -m benchmarks.neural_task POINT TABLE``, where POINT is a JSON object of a point's fields and TABLE is Adult's.
"""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.adult_table import Adult, read_adult
from benchmarks.neural_fits import encode_point, fit_point, quality_point
from benchmarks.neural_limits import flops_point, matmul_point, memory_point, overhead_point
from benchmarks.neural_peers import peer_point
from benchmarks.neural_point import Point

TASKS: Mapping[str, Callable[[Point, Adult], dict[str, Any]]] = {
    "fit": fit_point,
    "encode": encode_point,
    "quality": quality_point,
    "flops": flops_point,
    "matmul": matmul_point,
    "memory": memory_point,
    "overhead": overhead_point,
    "peer": peer_point,
}

if __name__ == "__main__":
    chosen = Point(**json.loads(sys.argv[1]))
    print(json.dumps(TASKS[chosen.task](chosen, read_adult(Path(sys.argv[2])))))
