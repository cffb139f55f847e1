"""The delivery of a comparison: evidence as every evaluation has it, and a table that a spreadsheet opens safely."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evaluate.comparison import Order
from reports.exports import write_csv
from reports.sections.quality import given_away
from synth.output import whole_folder
from understudy.artifacts import Delivery
from understudy.bundle.evidence import write_evidence
from understudy.bundle.keys import Signer
from understudy.console import DONE, FAILED, INCONCLUSIVE
from understudy.vendors.comparison import VendorComparison

TABLE = "comparison.csv"
TITLE = "Comparison of vendors"
NOTICE = "internal: reads real rows"
FORMULAS = "cells that a spreadsheet runs as formulas"
COLUMNS = (
    "vendor", "file", "standing", "place", "group", "verdict", "claimed_epsilon_unverified", "claimed_delta_unverified",
    "rows_delivered", "rows_compared", "missing_columns", "extra_columns", "formula_cells", "same_as",
)  # fmt: skip


def deliver_comparison(comparison: VendorComparison, seed: int, folder: Path, signer: Signer | None = None) -> None:
    """The sealed folder of a comparison, whole or not at all."""
    delivery = Delivery(comparison.evaluation, comparison.verdicts, comparison.policy, TITLE, None)
    files = {f"{name}.toml": file.content for name, file in comparison.files.items()}
    with whole_folder(folder) as beside:
        order = comparison.ranking.order
        ends = [f"{figure.figure} {part}" for figure in order.figures for part in ("value", "group")]
        write_csv(beside / TABLE, [*COLUMNS, *ends, "reason", "notice"], _lines(comparison, order))
        write_evidence(delivery, beside, signer, files=files, seeds={"comparison": seed})


def _lines(comparison: VendorComparison, order: Order) -> Iterator[dict[str, Any]]:
    places = {ranked.name: ranked for ranked in order.order}
    verdicts = {verdict.candidate: verdict.verdict for verdict in comparison.verdicts}
    for vendor in comparison.ranking.vendors:
        claim = vendor.claim
        rank = places.get(vendor.name)
        line = {
            "vendor": vendor.name, "file": vendor.file, "standing": vendor.standing,
            "place": None if rank is None else rank.place, "group": None if rank is None else rank.letters,
            "verdict": verdicts.get(vendor.name),
            "claimed_epsilon_unverified": claim.get("epsilon"), "claimed_delta_unverified": claim.get("delta"),
            "rows_delivered": vendor.rows_offered, "rows_compared": vendor.rows_compared,
            "missing_columns": "; ".join(vendor.missing_columns), "extra_columns": "; ".join(vendor.extra_columns),
            "formula_cells": vendor.formula_cells, "same_as": vendor.same_as,
            "reason": vendor.reason, "notice": NOTICE,
        }  # fmt: skip
        for figure in order.figures:
            line[f"{figure.figure} value"] = figure.values.get(vendor.name)
            line[f"{figure.figure} group"] = figure.letters.get(vendor.name)
        yield line


def exit_code(comparison: VendorComparison) -> int:
    """0: every table was evaluated and one at least is ranked; 1: every table is disqualified; 3: anything else."""
    standings = {vendor.standing for vendor in comparison.ranking.vendors}
    if standings == {"disqualified"}:
        return FAILED
    return DONE if "ranked" in standings and standings <= {"ranked", "disqualified"} else INCONCLUSIVE


def sentences(comparison: VendorComparison) -> tuple[str, ...]:
    """Notes for a reader, before the numbers."""
    facts = (*comparison.evaluation.real.warnings, *given_away(comparison.evaluation))
    notes, seen = [*facts, *comparison.evaluation.provenance.warnings], set[str]()
    for vendor in comparison.ranking.vendors:
        if vendor.same_as is not None and vendor.same_as in seen:
            notes.append(f"{vendor.same_as} and {vendor.name} delivered the same rows: one of them is a renamed copy")
        seen.add(vendor.name)
        if n := vendor.formula_cells:
            notes.append(
                f"{vendor.name} delivered {n:,} {'cell that a spreadsheet runs as a formula' if n == 1 else FORMULAS}; "
                "open its file with none"
            )
        if vendor.standing == "ranked" and vendor.open:
            notes.append(f"{vendor.name} is ranked, though more evidence is needed before anything is released")
        if vendor.claim:
            notes.append(f"what {vendor.name} claims of privacy is not verified")
    if comparison.evaluation.provenance.attempts is None:
        notes.append("how often this real table was measured against could not be counted on this machine")
    return tuple(notes)
