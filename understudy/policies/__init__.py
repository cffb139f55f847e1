"""The policies that ship, by name."""

from pathlib import Path

from synth.errors import JobError, nearest

_HOME = Path(__file__).parent


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
    raise JobError(f"policy={name_or_path!r} does not ship; {nearest(name_or_path, names())}, or name a TOML file")


def _or(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
