"""Numbers shared out among the parts of a table: each is one part's alone, in an order of its own."""

import numpy as np
import pytest

from synth.columns import IdentifierColumn, PersonalColumn
from synth.errors import SchemaError
from synth.identifiers import ENOUGH, generate, room_of
from synth.part import Part
from synth.permutation import LARGEST, permuted
from synth.personal import generate as personal

SIZES = (5, 1, 7, 7)


def parts(sizes: tuple[int, ...] = SIZES, seed: int = 3) -> list[Part]:
    firsts = np.cumsum([0, *sizes[:-1]]).tolist()
    return [Part(seed, first, size, sum(sizes)) for first, size in zip(firsts, sizes, strict=True)]


@pytest.mark.parametrize("room", [1, 2, 3, 10, 97, 1000, 65_536, 100_003])
@pytest.mark.parametrize("key", [0, 2**64 - 1])
def test_every_number_has_one_place(room: int, key: int) -> None:
    assert sorted(permuted(np.arange(room, dtype=np.uint64), room, key).tolist()) == list(range(room))


def test_a_stretch_of_the_order_is_known_without_the_rest() -> None:
    whole = permuted(np.arange(1000, dtype=np.uint64), 1000, 5)
    np.testing.assert_array_equal(permuted(np.arange(300, 310, dtype=np.uint64), 1000, 5), whole[300:310])


def test_the_largest_room_has_no_number_twice_or_outside() -> None:
    found = permuted(np.arange(100_000, dtype=np.uint64), LARGEST, 1)
    assert len(np.unique(found)) == 100_000
    assert found.max() < LARGEST
    assert abs(found.mean() / LARGEST - 0.5) < 5 / np.sqrt(12 * 100_000)


def test_each_order_is_as_likely_for_a_number_as_any_other() -> None:
    """Over keys, chi-squared over 5 places of 5 numbers: 16 degrees of freedom, mean 16, deviation 5.7."""
    n_keys = 4000
    counts = np.zeros((5, 5))
    for key in range(n_keys):
        counts[np.arange(5), permuted(np.arange(5, dtype=np.uint64), 5, key).astype(int)] += 1
    assert ((counts - n_keys / 5) ** 2 / (n_keys / 5)).sum() < 16 + 5 * 5.7


def test_parts_share_out_all_numbers_and_no_two_get_the_same() -> None:
    found = [part.numbers("id", part.n_rows, 20) for part in parts()]
    assert sorted(int(number) for numbers in found if numbers is not None for number in numbers) == list(range(20))


def test_a_part_gets_no_more_than_its_share() -> None:
    first, *_, last = parts()
    assert first.numbers("id", 5, 19) is None
    assert last.numbers("id", 7, 40) is not None
    assert last.numbers("id", 15, 40) is None


def test_every_column_and_every_seed_has_an_order_of_its_own() -> None:
    orders = {
        tuple(np.asarray(part.numbers(place, 20, 10**6)).tolist())
        for part in (Part(0, 0, 20, 20), Part(1, 0, 20, 20))
        for place in ("id", "other")
    }
    assert len(orders) == 4


@pytest.mark.parametrize(
    "column",
    [
        IdentifierColumn(template="#A"),
        IdentifierColumn(bounds=(-130, 129)),
        IdentifierColumn(template="x" * 40),
        IdentifierColumn(bounds=(-(2**63), 2**63 - 1)),
    ],
    ids=repr,
)
def test_identifiers_of_all_parts_are_distinct(column: IdentifierColumn) -> None:
    rng = np.random.default_rng(0)
    sizes = (100, 60, 100)
    made = [value for part in parts(sizes) for value in generate(column, part.n_rows, rng, part, "id").tolist()]
    assert len(set(made)) == len(made) == 260


def test_a_format_with_more_room_than_any_table_needs_is_used_all_over() -> None:
    widest = IdentifierColumn(bounds=(-(2**63), 2**63 - 1))
    assert room_of(widest) == ENOUGH
    made = generate(widest, 50_000, np.random.default_rng(0)) / 2.0**63
    assert made.min() < -0.999
    assert made.max() > 0.999
    assert abs(made.mean()) < 5 / np.sqrt(3 * 50_000)
    texts = generate(IdentifierColumn(template="x" * 40), 2_000, np.random.default_rng(0))
    for place in range(40):
        assert {text[place] for text in texts} == set("0123456789abcdef")


def test_a_format_too_narrow_for_all_parts_is_refused_by_the_first_of_them() -> None:
    with pytest.raises(SchemaError, match="room for 19 values, too few"):
        generate(IdentifierColumn(bounds=(1, 19)), 5, np.random.default_rng(0), parts()[0], "id")


@pytest.mark.parametrize(
    "column",
    [
        PersonalColumn(personal="phone", template="555-01##", unique=True),
        PersonalColumn(personal="phone", unique=True),
        PersonalColumn(personal="card_number", unique=True),
        PersonalColumn(personal="card_number", template="#" * 13, unique=True),
    ],
    ids=repr,
)
def test_unique_numbers_of_all_parts_are_distinct(column: PersonalColumn) -> None:
    rng = np.random.default_rng(0)
    sizes = (40, 20, 40)
    made = [value for part in parts(sizes) for value in personal(column, part.n_rows, rng, part, "x").tolist()]
    assert len(set(made)) == 100
