"""Why a verdict is no PASS, as its file says it: the first rule that decides it. No value of a table is in it."""

from collections.abc import Mapping
from typing import Any

from evaluate.gate.checks import BROKEN


def reason_of(verdict: Mapping[str, Any]) -> str:
    """The first rule that decides the verdict on the table to release, without full stop.

    Args:
        verdict: the content of a file of verdicts.

    Returns:
        Empty for a PASS, for no verdict, and for a file that does not say.
    """
    outcome = verdict.get("verdict")
    if outcome not in ("FAIL", "INCONCLUSIVE"):
        return ""
    try:
        (released,) = (one for one in verdict["candidates"] if one["candidate"] == verdict["release"])
        return _deciding(released, outcome)
    except (AttributeError, KeyError, TypeError, ValueError):  # somebody's own file: it must not end the others' batch
        return ""


def _deciding(released: Mapping[str, Any], outcome: str) -> str:
    """The first rule with the verdict's outcome; where there is none, the self-test that does not come out."""
    counting = [one for one in released["findings"] if one["rule"]["severity"] == "fail" and not one["waived"]]
    deciding = [one for one in counting if one["outcome"] == outcome]
    if deciding:
        rule = deciding[0]["rule"]
        named = " ".join((rule["measure"], ", ".join(rule["subject"]))).strip()
        more = f" (and {len(deciding) - 1} more)" if len(deciding) > 1 else ""
        return f"{named} {outcome}: {deciding[0]['reason'].rstrip('.')}{more}"
    for check in released["checks"]:
        if check["outcome"] == BROKEN:
            return f"self-test {check['case']} did not come out, so nothing passes: {check['reason'].rstrip('.')}"
    return "no rule of the policy counts, so nothing was shown to hold"
