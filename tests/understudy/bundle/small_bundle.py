"""A bundle small enough to be changed in every way there is."""

import json
from datetime import date
from pathlib import Path
from typing import Any

from understudy.bundle.manifest import About, Rules, seal
from understudy.bundle.signing import Signer
from understudy.bundle.verification import Demand, verify

RULES = Rules(name="internal", version=1, audience="the team")


def about(kind: str = "internal", **changes: object) -> About:
    text = {
        "kind": kind, "made_at": "2026-11-22T01:02:03Z", "title": "Small",
        "policy": RULES.model_dump(), "release": "mst", "valid_until": date(2999, 1, 31),
    }  # fmt: skip
    if kind == "internal":
        text |= {"verdict": "PASS", "verdicts": {"mst": "PASS"}, "seeds": {"job": 3}, "versions": {"python": "3.11"}}
    return About.model_validate({**text, **changes})


def fill(folder: Path, *, waiver_until: str | None = None, public: str | None = "PASS") -> Path:
    waiver = {
        "policy": "internal", "version": 1, "candidate": "mst", "measure": "pairs.tvd.excess", "subject": [],
        "owner": "A. Lind", "reason": "known", "until": waiver_until,
    }  # fmt: skip
    waived = {"waived": True, "waiver": waiver}
    findings = [{"waived": False, "waiver": None}, *([] if waiver_until is None else [waived])]
    (folder / "synthetic").mkdir(parents=True)
    (folder / "to-hand-on").mkdir()
    (folder / "synthetic" / "mst.csv").write_text("a,b\n1,x\n2,y\n")
    (folder / "report.html").write_text("<p>A report</p>\n")
    judged = {"verdict_to_hand_on": public, "candidates": [{"candidate": "mst", "findings": findings}]}
    (folder / "verdict.json").write_text(json.dumps(judged))
    (folder / "to-hand-on" / "mst.csv").write_text("a,b\n1,x\n2,y\n")
    return folder


def seal_both(folder: Path, signer: Signer | None, **changes: object) -> Path:
    seal(folder / "to-hand-on", about("to-hand-on"), signer)
    seal(folder, about(**changes), signer)
    return folder


def demand(**changes: Any) -> Demand:
    return Demand(**{"today": date(2026, 11, 22), "register": {}, **changes})


def kinds(folder: Path, **changes: Any) -> set[str]:
    """Of everything that is wrong with a bundle."""
    return {problem.kind for problem in verify(folder, demand(**changes)).problems}
