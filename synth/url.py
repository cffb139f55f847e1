"""Addresses of databases: what of them may be shown, told apart from what may hold some of a password.

A password may hold any character, and somebody who does not know that some have to be escaped writes them as they are.
Then the parts that a parser finds are not those that were meant: its server is the end of a password. So an address is
read only where there is one way to read it, and else refused without a word of it.
"""

import re
from urllib.parse import SplitResult, unquote, urlsplit

ESCAPES = (
    "characters of a user or a password that are none of letters, digits, '-', '.', '_' and '~' are written like %40 "
    "for '@'"
)
"""The remedy for an address that can be read in two ways."""
MARKS = "@?&;="
"""Characters that end a part of an address or begin a parameter: behind one, a shown part may hold a password."""
SCHEME = re.compile("[a-z][a-z0-9+.-]*", re.ASCII | re.IGNORECASE)
_CREDENTIALS = re.compile(":.*@", re.DOTALL)


def split(text: str, *, is_file: bool = False) -> SplitResult | None:
    """The parts of an address; `None` where the text is no address, or a shown part may hold some of a password.

    >>> split("postgresql://ann:secret@db.example/clinic").hostname
    'db.example'
    >>> split("postgresql://ann:sec@ret@db.example/clinic") is None
    True
    """
    scheme, mark, _ = text.partition("://")
    try:
        parts = urlsplit(text)
        sound = parts.port is None or parts.port > 0
    except ValueError:  # its message quotes a part
        return None
    if not (sound and mark and SCHEME.fullmatch(scheme)) or parts.netloc.count("@") > 1 or "@" in parts.query:
        return None
    shown = unquote((parts.hostname or "") + parts.fragment + ("" if is_file else parts.path))
    return None if any(mark in shown for mark in MARKS) else parts


def lacks_scheme(text: str) -> bool:
    """True if a text without a scheme is more likely credentials and a server than a file: it is not to be shown.

    >>> lacks_scheme("ann:secret@db.example/clinic"), lacks_scheme("books.db")
    (True, False)
    """
    return "://" not in text and _CREDENTIALS.search(text) is not None


def without_addresses(text: str) -> str:
    """A text in which no address is shown but its scheme: nobody can say where one that was mistyped ends.

    >>> without_addresses("no such option: postgresql://ann:secret@db.example/clinic")
    'no such option: postgresql://...'
    """
    before, mark, _ = text.partition("://")
    return f"{before}{mark}..." if mark else text
