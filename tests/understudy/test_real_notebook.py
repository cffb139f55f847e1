"""A real notebook, run by a real kernel: what it shows while work is done, and what is left of it."""

import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CELLS = (
    """
import numpy as np, pandas as pd, evaluate, synth
rng = np.random.default_rng(0)
real = pd.DataFrame({"age": rng.integers(18, 90, 900), "town": rng.choice(list("xyz"), 900)})
schema = synth.infer_schema(real)
train, holdout = synth.split_table(real, schema)
beside = {"holdout": holdout, "schema": schema}
""",
    "model = synth.fit(train)",
    """
measures = ["validity", "fidelity.columns", "fidelity.pairs"]
evaluation = evaluate.evaluate(train, model.sample(seed=0), **beside, measures=measures)
""",
    """
quiet = synth.quiet
again = evaluate.evaluate(train, model.sample(), **beside, measures=measures, progress=quiet)
""",
    "evaluation.plot.columns()",
    '(verdict,) = evaluate.judge(evaluation, "internal")\nverdict',
)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those of Jupyter are not ours
def test_a_bar_comes_and_goes_and_charts_and_verdicts_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    client = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    import nbformat

    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    text: list[tuple[int, str]] = []

    class Watched(client.NotebookClient):  # type: ignore[misc, name-defined]
        """Keeps every state of what a cell displays."""

        def process_message(self, message: dict[str, Any], cell: Any, index: int) -> Any:
            if message["msg_type"] in ("display_data", "update_display_data"):
                text.append((index, message["content"]["data"]["text/plain"]))
            return super().process_message(message, cell, index)

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    Watched(notebook, timeout=300).execute()
    assert {index for index, _ in text} == {1, 2}
    assert (2, "measure synthetic: fidelity.pairs") in text
    left = [[output.get("data", {}) for output in cell.outputs] for cell in notebook.cells]
    gone = {"text/plain": "", "text/html": ""}
    inferred, *rest = left[1]
    assert (inferred["text/plain"], "<table>" in inferred["text/html"]) == ("<Schema inferred: 2 columns>", True)
    assert [left[0], rest, *left[2:4]] == [[], [gone], [gone], []]
    assert left[4][0].keys() == {"text/plain", "text/html", "image/svg+xml"}
    assert left[5][0]["text/plain"].startswith("<Verdict ")
