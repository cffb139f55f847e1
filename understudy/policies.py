"""Policies as files: read once, and never under the name of a shipped one."""

import unicodedata
from pathlib import Path

from evaluate.gate.policy import Policy, build_policy, find_policy, load_policy, shipped
from synth.errors import JobError
from synth.parsing import GivenFile, read_given
from synth.validation import parse_toml


def given_policy(name_or_path: str, beside: Path) -> GivenFile:
    """The file of a policy, read once.

    Args:
        name_or_path: a shipped policy's name, or the path of a TOML file.
        beside: the folder that a relative path starts from.

    Raises:
        JobError: neither a shipped name nor a file, or it cannot be read; nothing was judged.
    """
    return read_given(find_policy(name_or_path, beside), "policy", JobError)


def named_policy(given: GivenFile) -> Policy:
    """A policy from its file, refused where it goes by the name of a shipped one and says something else.

    Whoever reads a verdict knows the policy by its name alone.

    Raises:
        JobError: the file is not a policy, or takes a shipped policy's name; nothing was judged.
    """
    found = build_policy(parse_toml(given, "policy", JobError))
    alike = unicodedata.normalize("NFKC", found.name).casefold().strip()  # as a reader sees it
    if alike in shipped() and found != load_policy(alike):
        raise JobError(
            f"the policy in path={str(given.path)!r} calls itself name={found.name!r} and differs from the {alike!r} "
            "that ships, so that verdicts could not be told apart; rename it"
        )
    return found
