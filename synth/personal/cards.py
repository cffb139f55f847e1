"""Card numbers behind the first digits of those that card networks publish for tests: nobody has one."""

import numpy as np

from synth.personal.checksums import luhn_digits

_CARD_TESTS = {14: ("305693", "385200"), 15: ("378282", "371449")}
_CARD_TEST = ("424242", "400005", "555555", "510510", "601111")
"""First digits of the numbers that card networks publish for tests."""


def room_of(template: str) -> int:
    """How many card numbers a template admits behind the first digits of test numbers.

    >>> room_of("################")
    5000000000
    """
    tests, n_free = _digits(template)
    return int(len(tests) * 10**n_free)


def numbered(template: str, numbers: np.ndarray) -> np.ndarray:
    """Card numbers that pass the Luhn check, different ones for different numbers; shape as `numbers`.

    Args:
        template: their form: digits, with what stands between them.
        numbers: below `room_of` the template, uint64.

    >>> numbered("#### #### #### ####", np.array([242424242], dtype=np.uint64)).tolist()
    ['4242 4224 2424 2424']
    """
    tests, n_free = _digits(template)
    which, inside = np.divmod(numbers, np.uint64(10**n_free))
    powers = np.array([10**place for place in reversed(range(n_free))], dtype=np.uint64)
    free = (inside[:, np.newaxis] // powers % np.uint64(10)).astype(np.int64)
    digits = np.concatenate([tests[which], free], axis=1)
    digits = np.concatenate([digits, luhn_digits(digits)[:, np.newaxis]], axis=1)
    form = template.replace("#", "{}")
    values = np.empty(len(numbers), dtype=object)
    values[:] = [form.format(*row) for row in digits.tolist()]
    return values


def _digits(template: str) -> tuple[np.ndarray, int]:
    """The first digits that a card number may have, shape (n_tests, d), and how many between them and the check."""
    width = template.count("#")
    tests = np.array([[int(digit) for digit in test] for test in _CARD_TESTS.get(width, _CARD_TEST)])
    return tests, width - tests.shape[1] - 1
