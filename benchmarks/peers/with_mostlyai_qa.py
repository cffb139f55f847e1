"""`mostlyai-qa` on one folder's tables: ``python with_mostlyai_qa.py FOLDER``.

``distances`` takes what its report says of privacy: embeddings and distances to closest records. ``report`` is all of
it, accuracy and the page included. Its model of words comes with the package.
"""

import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from evaluated import Three, measured, read_task, read_three, write_result
from mostlyai.qa import report
from mostlyai.qa._distances import calculate_dcr_share, calculate_distances
from mostlyai.qa._sampling import prepare_data_for_embeddings
from mostlyai.qa.random_state import set_random_state

N_WARM = 200


def main(folder: Path) -> None:
    """Do what the task says."""
    warnings.simplefilter("ignore")
    task, tables = read_task(folder), read_three(folder)
    set_random_state(task["seed"])
    few = Three(*(table.head(N_WARM) for table in (tables.train, tables.holdout, tables.synthetic)))
    distances(few)
    facts: dict[str, Any] = {}
    result = measured(lambda: facts.update({"report": whole, "distances": distances}[task["do"]](tables)))
    write_result(folder, {**result, "facts": facts}, ["mostlyai-qa", "torch", "numpy", "pandas"])


def distances(tables: Three) -> dict[str, float]:
    """Its share of synthetic rows that are closer to training rows than to the holdout's."""
    synthetic, train, holdout = prepare_data_for_embeddings(
        syn_tgt_data=tables.synthetic, trn_tgt_data=tables.train, hol_tgt_data=tables.holdout
    )
    distances = calculate_distances(syn_embeds=synthetic, trn_embeds=train, hol_embeds=holdout)
    share = calculate_dcr_share(distances["dcr_syn_trn"], distances["dcr_syn_hol"])
    return {"dcr_share": float(share), "rows": float(np.shape(train)[0])}


def whole(tables: Three) -> dict[str, float]:
    """Its report."""
    with tempfile.TemporaryDirectory() as folder:
        _, metrics = report(
            syn_tgt_data=tables.synthetic,
            trn_tgt_data=tables.train,
            hol_tgt_data=tables.holdout,
            report_path=Path(folder) / "report.html",
        )
    assert metrics is not None
    return {"dcr_share": float(metrics.distances.dcr_share)}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
