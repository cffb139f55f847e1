"""What the sealed file of verdicts says: of the table to release inside, and of what would leave."""

from pathlib import Path
from typing import Any

from synth.parsing import plain_json
from understudy.bundle.errors import BundleError
from understudy.bundle.folder import read_plain

VERDICT = "verdict.json"
LIMIT_BYTES = 256 << 20
"""Of the file of verdicts: a sweep has many."""
PUBLIC_VERDICT = "public_verdict"
FAILS = "its public verdict is FAIL: the public report says DO NOT RELEASE"


def verdict_content(folder: Path) -> dict[str, Any]:
    """The content of the file of verdicts.

    Args:
        folder: an internal bundle.

    Raises:
        BundleError: it cannot be read, or holds something else.
    """
    try:
        content = plain_json(read_plain(folder / VERDICT, LIMIT_BYTES))
    except (OSError, ValueError):
        raise damaged() from None
    if not isinstance(content, dict):
        raise damaged()
    return content


def damaged() -> BundleError:
    """The error about a file of verdicts that does not say what it has to."""
    return BundleError(f"{VERDICT} does not say what the verdict rests on; make the bundle again")


def public_fails(folder: Path) -> bool:
    """Whether the file of verdicts says that the public report shows FAIL; an older or damaged one says nothing."""
    try:
        return verdict_content(folder).get(PUBLIC_VERDICT) == "FAIL"
    except BundleError:
        return False
