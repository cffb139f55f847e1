"""Numbers that the parts of a table take one after the other: each is one part's alone, in an order of its own."""

from pathlib import Path

import numpy as np
import pytest

from synth.chunks import LARGEST, Part, permuted
from synth.columns import IdentifierColumn, PersonalColumn
from synth.errors import SchemaError
from synth.generators.models.chunked_output import SeenOnDisk
from synth.identifiers import ENOUGH, check_room, generate, room_of
from synth.personal import check_room as check_personal
from synth.personal import generate as personal

SIZES = (5, 1, 7, 7)


def parts(folder: Path, sizes: tuple[int, ...] = SIZES, seed: int = 3) -> list[Part]:
    return [Part(seed, size, sum(sizes), SeenOnDisk(folder, index)) for index, size in enumerate(sizes)]


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


def test_parts_share_out_all_numbers_and_no_two_get_the_same(tmp_path: Path) -> None:
    found = [part.numbers("id", part.n_rows, 20) for part in parts(tmp_path)]
    assert sorted(int(number) for numbers in found if numbers is not None for number in numbers) == list(range(20))


def test_a_part_gets_what_those_before_have_left_whatever_its_rows(tmp_path: Path) -> None:
    one, two, three, four = parts(tmp_path)
    needed = (9, 0, 7, 3)
    taken = [part.numbers("id", n, 19) for part, n in zip((one, two, three, four), needed, strict=True)]
    assert sorted(int(number) for numbers in taken if numbers is not None for number in numbers) == list(range(19))
    assert four.numbers("id", 4, 19) is None
    assert four.numbers("id", 4, 20) is not None


def test_a_part_that_is_made_again_gets_the_same_numbers(tmp_path: Path) -> None:
    one, two, *_ = parts(tmp_path)
    first, second = one.numbers("id", 5, 20), two.numbers("id", 4, 20)
    again = parts(tmp_path)[1].numbers("id", 4, 20)
    assert first is not None and second is not None and again is not None
    assert second.tolist() == again.tolist()
    assert not set(first.tolist()) & set(second.tolist())


def test_every_column_and_every_seed_has_an_order_of_its_own() -> None:
    orders = {
        tuple(np.asarray(part.numbers(place, 20, 10**6)).tolist())
        for part in (Part(0, 20, 20), Part(1, 20, 20))
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
def test_identifiers_of_all_parts_are_distinct(column: IdentifierColumn, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sizes = (100, 60, 100)
    made = [
        value for part in parts(tmp_path, sizes) for value in generate(column, part.n_rows, rng, part, "id").tolist()
    ]
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


def test_a_format_too_narrow_for_all_parts_is_known_before_any_is_made() -> None:
    widest = IdentifierColumn(bounds=(-(2**63), 2**63 - 1))
    for narrow in (IdentifierColumn(bounds=(1, 19)), IdentifierColumn(template="#")):
        with pytest.raises(SchemaError, match=r"room for 1[09] values, too few for this table"):
            check_room(narrow, 20)
    check_room(IdentifierColumn(bounds=(1, 19)), 19)
    check_room(widest, 10**12)
    phone = PersonalColumn(personal="phone", template="555-01##", unique=True)
    with pytest.raises(SchemaError, match="too few different values"):
        check_personal(phone, 101)
    check_personal(phone, 100)
    check_personal(phone.model_copy(update={"unique": False}), 101)
    check_personal(PersonalColumn(personal="name", unique=True), 10**12)


@pytest.mark.parametrize(
    "column",
    [
        IdentifierColumn(template="P-###"),
        IdentifierColumn(bounds=(1, 19)),
        PersonalColumn(personal="phone", unique=True, missing=True, missing_share=0.5),
        PersonalColumn(personal="card_number", unique=True),
        PersonalColumn(personal="last_name", unique=True),
    ],
    ids=repr,
)
def test_no_rows_have_no_names(column: IdentifierColumn | PersonalColumn) -> None:
    rng = np.random.default_rng(0)
    made = generate(column, 0, rng) if isinstance(column, IdentifierColumn) else personal(column, 0, rng)
    assert made.shape == (0,)
    assert made.dtype == (np.int64 if isinstance(column, IdentifierColumn) and column.bounds else object)


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
def test_unique_numbers_of_all_parts_are_distinct(column: PersonalColumn, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sizes = (40, 20, 40)
    made = [
        value for part in parts(tmp_path, sizes) for value in personal(column, part.n_rows, rng, part, "x").tolist()
    ]
    assert len(set(made)) == 100
