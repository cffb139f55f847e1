"""The standing of a privacy statement: whether its guarantee holds, and what stands for it where it does not."""

from collections.abc import Mapping
from typing import Literal

from evaluate.audit_result import EXCEEDS
from evaluate.gate.claim import Claims, made_here, on_stand_in
from evaluate.result import Candidate, Evaluation
from synth.dp.statement import NO_GUARANTEE

Standing = Literal["formal", "void", "disputed", "unverified"]
LACKS: Mapping[Standing | None, str] = {
    "formal": "",
    "void": "its privacy statement is void: no formal guarantee",
    "disputed": "its privacy statement is disputed",
    "unverified": "its privacy statement is unverified",
    None: NO_GUARANTEE,
}
"""The words beside a verdict; `None`: there is no statement."""


def standing_of(
    evaluation: Evaluation, candidate: Candidate, claims: Claims | None, *, public: bool = False
) -> Standing | None:
    """`None` without a statement; `public`: audits on anything but a public stand-in are not for the public."""
    if candidate.statement is None or claims is None:
        return None
    if not claims.counted.private:
        return "void"
    audit = candidate.audit
    disproved = audit is not None and audit.verdict == EXCEEDS and (not public or on_stand_in(audit))
    if disproved or claims.counted.disputed:
        return "disputed"
    return "formal" if made_here(evaluation) else "unverified"
