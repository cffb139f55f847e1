"""Names and numbers as a reader sees them: hostile names made harmless and short, numbers with few, true digits."""

import math
import unicodedata
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

SHORT = 28
LONGEST = 200  # Characters of a name that a tooltip holds at most
LONGEST_NAME, MOST_NAMED = 60, 6  # Characters of a name in a sentence, and names in one list
LONGEST_SENTENCE = 600  # Characters that a sentence of a file may have; a longer one is none of ours
TINIEST = 0.95e-6
"""Of numbers that stand together, the smallest that is written with decimals; what is smaller is a power of ten."""
_LARGEST = 1e300

_BIDI = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")


def plain(name: object, longest: int = LONGEST) -> str:
    """A name without control characters, direction overrides or lone surrogates, at most `longest` characters.

    >>> plain("a" + chr(0) + "b")
    'a\ufffdb'
    """
    harmful = ("Cc", "Cs", "Cn")  # categories of characters
    cut = str(name)[: longest + 1]
    shown = "".join("\ufffd" if unicodedata.category(c) in harmful or c in _BIDI else c for c in cut)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def sentence(text: object) -> str:
    """A sentence that a reader needs whole, made as harmless as a name.

    >>> len(sentence("word " * 100))
    500
    """
    return plain(text, LONGEST_SENTENCE)


def short(name: object, n: int = SHORT) -> str:
    """A name cut to `n` characters, with an ellipsis where something is missing.

    >>> short("marital_status", 8)
    'marital…'
    """
    return plain(name, n)


def listed(names: Sequence[object], most: int = MOST_NAMED) -> str:
    """Names in quotes, harmless and short; of more than `most` the first of them, and how many more there are.

    >>> listed(["age", "a" + chr(0) + "b"]), listed(range(9), 2)
    ("'age', 'a�b'", "'0', '1' and 7 more")
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(repr(short(name, LONGEST_NAME)) for name in names[:most]) + more


def number(value: float | None, digits: int = 3) -> str:
    """A number with a true minus sign and `digits` decimals, one more below 0.01; powers of ten where it is tiny.

    >>> number(-0.02), number(0.00042), number(1e-6), number(None)
    ('\u22120.020', '0.0004', '1e\u22126', '—')
    """
    if value is None:
        return "—"
    if 0 < abs(value) < 0.95e-4:
        mantissa, exponent = f"{value:.1e}".split("e")
        shown = f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    else:
        shown = f"{value:.{digits + (0 < abs(value) < 0.00995 and digits >= 3)}f}"
    return shown.replace("-", "\u2212")


def alike(*values: float | None) -> tuple[str, ...]:
    """Numbers that stand together, such as a value and the ends of its interval, with one number of decimals.

    As many as the smallest of them takes: three, four below 0.01, more only where all of its digits would be zeros.

    >>> alike(0.012, 0.005, 0.02), alike(0.5, -0.00003, None), alike(0.25, 0.0)
    (('0.0120', '0.0050', '0.0200'), ('0.50000', '\u22120.00003', '—'), ('0.250', '0.000'))
    """
    decimals = max((_decimals(value) for value in values if value is not None), default=3)
    return tuple(number(v) if v is None or _is_tiny(v) else _with(v, decimals) for v in values)


def _decimals(value: float) -> int:
    size = abs(value)
    if not 0 < size < 0.00995 or _is_tiny(value):
        return 3
    return 4 if size >= 0.95e-4 else math.ceil(-math.log10(size / 0.95))


def _is_tiny(value: float) -> bool:
    return 0 < abs(value) < TINIEST


def _with(value: float, decimals: int) -> str:
    return f"{value + 0.0:.{decimals}f}".replace("-", "\u2212")


def compact(value: float) -> str:
    """A number as written by hand: no trailing zeros.

    >>> compact(0.60), compact(10.0), compact(1e-6)
    ('0.6', '10', '1e\u22126')
    """
    return f"{value:.4g}".replace("e-0", "e-").replace("e+0", "e").replace("-", "\u2212")


def loss(value: object) -> str:
    """A privacy loss with at most three digits, rounded up, so that it is never understated.

    The fifteenth digit is dropped first: it belongs to floating point, and would turn 0.1 + 0.2 into 0.301.

    >>> loss(0.9999), loss(1.0724), loss(1e-6), loss(0.1 + 0.2), loss(12.0)
    ('1', '1.08', '1e\u22126', '0.3', '12')
    """
    return _rounded(value, ROUND_CEILING)


def typed_loss(value: object) -> str:
    """A privacy loss as `loss` has it, with the hyphen that a job or a command line takes for a minus.

    >>> typed_loss(1.0724), typed_loss(1e-6)
    ('1.08', '1e-6')
    """
    return loss(value).replace("\u2212", "-")


def room(value: object) -> str:
    """Remaining privacy loss in at most three digits, rounded down, so that it is never overstated.

    >>> room(1.7007), room(0.3 - 0.2), room(0.0)
    ('1.7', '0.1', '0')
    """
    return _rounded(value, ROUND_FLOOR)


def _rounded(value: object, rounding: str) -> str:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return plain(value)
    if not abs(value) <= _LARGEST:
        return "unbounded"
    written = Context(prec=14).create_decimal(Decimal(value))
    return compact(float(Context(prec=3, rounding=rounding).create_decimal(written)))


def count(n: float) -> str:
    """A whole number with commas between thousands.

    >>> count(48842)
    '48,842'
    """
    return f"{int(n):,}"


def one_in(share: float) -> str:
    """A small probability as one in so many, never fewer than it is.

    >>> one_in(1e-5)
    'one in 100,000'
    """
    return f"one in {count(1 / share * (1 + 1e-12))}"


def percent(share: float) -> str:
    """A share as a percentage: one decimal below ten.

    >>> percent(0.056), percent(0.4)
    ('5.6%', '40%')
    """
    if 0 < share < 0.001:
        return "<0.1%"
    return f"{100 * share:.1f}%" if 0 < share < 0.0995 else f"{100 * share:.0f}%"


def at_most(share: float) -> str:
    """A share that is a limit as a percentage, rounded up: two digits below 10%, one decimal above.

    >>> at_most(0.01834), at_most(0.0021), at_most(0.5475), at_most(1.0), at_most(0.1)
    ('1.9%', '0.21%', '54.8%', '100%', '10%')
    """
    shown = Context(prec=12).create_decimal(Decimal(100 * share))
    digits = 2 if shown < 10 else 3
    return f"{Context(prec=digits, rounding=ROUND_CEILING).create_decimal(shown).normalize():f}%"


def amount(value: object, largest: float = _LARGEST) -> float | None:
    """A cost, a count or a time, none of which is negative; `None` where a file holds no such number.

    >>> amount(3), amount(-1.0), amount(True), amount(1e12, largest=1e9)
    (3.0, None, None, None)
    """
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= largest
    return float(value) if usable else None  # type: ignore[arg-type]


def finite(value: object, default: float = 0.0) -> float:
    """A number to draw, from data that may hold none."""
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable else default  # type: ignore[arg-type]


def mapping(value: object) -> Mapping[str, Any]:
    """A mapping; an empty one where it is none."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: object) -> tuple[Mapping[str, Any], ...]:
    """The mappings in a list.

    >>> mappings([{"a": 1}, 2]), mappings("ab")
    (({'a': 1},), ())
    """
    return tuple(each for each in value if isinstance(each, Mapping)) if isinstance(value, list | tuple) else ()


def texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list | tuple) else ()
