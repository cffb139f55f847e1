"""Which texts may stand for a value: those that every reader and every file takes for the same text."""

from collections.abc import Iterable
from typing import Any


def is_plain(text: str) -> bool:
    r"""Whether a text holds neither a NUL, after which C and pandas see nothing, nor half a surrogate pair.

    >>> is_plain("south"), is_plain("south\0a"), is_plain(chr(0xD800))
    (True, False, False)
    """
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair is no text
        return False
    return True


def require_plain(key: str, values: Iterable[Any]) -> None:
    """Refuse a public list that names a text which no reader takes for a value.

    Args:
        key: of the schema, under which the list stands.
        values: texts, and values of other types, which pass.

    Raises:
        ValueError: a text is not plain; it is shown with its characters escaped.
    """
    for value in values:
        if isinstance(value, str) and not is_plain(value):
            raise ValueError(
                f"{key} holds {_short(value)}, and a text with a NUL character or half a surrogate pair is read as "
                "missing; leave it out, and set missing = true where cells hold it"
            )


def _short(text: str) -> str:
    shown = ascii(text)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
