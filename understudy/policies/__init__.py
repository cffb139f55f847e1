"""The policies that ship, by name."""

import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

import evaluate
from synth.errors import JobError, nearest
from synth.given_file import GivenFile, read_given

if TYPE_CHECKING:
    from evaluate.policy import Policy

_HOME = Path(evaluate.__file__).parent / "policies"


def names() -> tuple[str, ...]:
    """Names of the shipped policies.

    >>> names()
    ('internal', 'partner', 'public')
    """
    return tuple(sorted(path.stem for path in _HOME.glob("*.toml")))


def find_policy(name_or_path: str, beside: Path) -> Path:
    """The file of a policy.

    Args:
        name_or_path: a shipped policy's name, or the path of a TOML file.
        beside: the folder that a relative path starts from.

    Raises:
        JobError: neither a shipped name nor a file; nothing was judged.

    >>> find_policy("internal", Path()).name
    'internal.toml'
    """
    if name_or_path in names():
        return _HOME / f"{name_or_path}.toml"
    path = beside / name_or_path
    if path.is_file():
        return path
    if path.suffix == ".toml":
        raise JobError(f"the policy is not there: policy={name_or_path!r}; name a TOML file, or {_or(names())}")
    raise JobError(f"policy={name_or_path!r} is no file and does not ship; {nearest(name_or_path, names())}")


def given_policy(name_or_path: str, beside: Path) -> GivenFile:
    """The file of a policy, read once.

    Args:
        name_or_path: a shipped policy's name, or the path of a TOML file.
        beside: the folder that a relative path starts from.

    Raises:
        JobError: neither a shipped name nor a file, or it cannot be read; nothing was judged.
    """
    return read_given(find_policy(name_or_path, beside), "policy", JobError)


def named_policy(given: GivenFile) -> "Policy":
    """A policy from its file, refused where it goes by the name of a shipped one and says something else.

    Whoever reads a verdict knows the policy by its name alone.

    Raises:
        JobError: the file is not a policy, or takes a shipped policy's name; nothing was judged.
    """
    found = _policy(given)
    alike = _folded(found.name)
    if alike in names() and found != _policy(given_policy(alike, Path())):
        raise JobError(
            f"the policy in path={str(given.path)!r} calls itself name={found.name!r} and differs from the {alike!r} "
            "that ships, so that verdicts could not be told apart; rename it"
        )
    return found


def _policy(given: GivenFile) -> "Policy":
    from evaluate.policy import build_policy
    from synth.validation import parse_toml

    return build_policy(parse_toml(given, "policy", JobError))


def _folded(name: str) -> str:
    """What a name looks like, whatever its case and width."""
    return unicodedata.normalize("NFKC", name).casefold().strip()


def _or(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
