"""Text that stays text in GitHub-flavored Markdown, whoever wrote it: names, sentences, tables.

Source: GitHub Flavored Markdown Spec 0.29, sections 2.4 (backslash escapes), 6.2 (entities), 6.3 (code spans),
4.10 (tables).
"""

import re
from collections.abc import Iterable

from evaluate.text import plain

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "\\": "&#92;", "`": "&#96;"}
_ESCAPED = frozenset("*_[]~$")
_BLOCK = re.compile(r"^(?:[#+=:-]|\d+[.)](?=\s|$))")
"""The beginning of a heading, a list or a rule, where a text begins a line."""
_JOINER = "\u2060"
"""Invisible, and no letter: what follows an @ is then neither a person to notify nor a mail address to link."""
_LINKED = re.compile(r"(?i)(?:https?|ftp|mailto|xmpp)(?=:)|www(?=\.)")
LONGEST_TEXT = 4000  # Characters of a text of several paragraphs that a card shows


def text(value: object, longest: int = LONGEST_TEXT) -> str:
    r"""A text as itself: no markup, no link, no mention, no raw HTML, on one line.

    >>> text("[x](javascript:alert(1)) | <b>")
    '\\[x\\](javascript:alert(1)) &#124; &lt;b&gt;'
    """
    shown = " ".join(plain(" ".join(str(value)[: 2 * longest].split()), longest).split())
    marked = "".join(map(_as_text, _LINKED.sub(rf"\g<0>{_JOINER}", shown)))
    begins = _BLOCK.match(marked)
    return marked if begins is None else f"{marked[: begins.end() - 1]}\\{marked[begins.end() - 1 :]}"


def name(value: object) -> str:
    """A name as code, in which nothing is marked up, linked or mentioned; as text where that would not hold it.

    >>> name("marital_status"), name("a|b")
    ('`marital_status`', 'a&#124;b')
    """
    shown = " ".join(plain(value).split())
    return f"`{shown}`" if shown and not set(shown) & set("`|\\") else text(shown) or "(no name)"


def document(lines: Iterable[str]) -> str:
    """A text of lines, without two empty ones in a row."""
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n") + "\n"


def _as_text(character: str) -> str:
    if character == "@":
        return f"@{_JOINER}"
    return _ENTITIES.get(character) or (f"\\{character}" if character in _ESCAPED else character)
