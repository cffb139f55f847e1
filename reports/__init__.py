"""Show an evaluation: the report as data, and as one HTML page that needs neither script nor network.

From a notebook: a schema, a fit and a sample, then an evaluation and a report.

>>> import tempfile
>>> from pathlib import Path
>>> import numpy as np, pandas as pd
>>> import evaluate, reports, synth
>>> rng = np.random.default_rng(0)
>>> age = rng.integers(18, 90, 600)
>>> real = pd.DataFrame({"age": age, "smoker": rng.random(600) < 0.3, "ill": rng.random(600) < age / 100})
>>> schema = synth.infer_schema(real, target="ill")
>>> train, holdout = synth.split_table(real, schema)
>>> synthetic = synth.fit(train, schema, "mst").sample(seed=0)
>>> evaluation = evaluate.evaluate(train, synthetic, holdout=holdout, schema=schema)
>>> page = reports.write_html(evaluation, Path(tempfile.mkdtemp()) / "report.html")
>>> page.read_text(encoding="utf-8").startswith("<!doctype html>")
True
"""

from reports.document import Document, compose
from reports.exports import write_sweep
from reports.html import render_html, write_html

__all__ = ["Document", "compose", "render_html", "write_html", "write_sweep"]
