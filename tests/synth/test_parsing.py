"""TOML and JSON are read strictly: what the rest of a program could not hold is refused, in a few words."""

import json
import tomllib
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from synth.parsing import DEEPEST, NotPlain, plain_json, plain_toml

KEYS = st.text(st.characters(codec="utf-8"), max_size=5)
LEAVES = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | KEYS
DATA = st.recursive(LEAVES, lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=3))


@given(DATA)
def test_what_json_writes_is_read_back(content: Any) -> None:
    assert plain_json(json.dumps(content)) == plain_json(json.dumps(content, ensure_ascii=False).encode()) == content


@given(st.dictionaries(KEYS, DATA, max_size=3))
def test_what_toml_writes_is_read_back(content: dict[str, Any]) -> None:
    assert plain_toml(tomli_w.dumps(content)) == content


@given(st.text() | st.binary())
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    for read in (plain_json, plain_toml):
        try:
            read(text if isinstance(text, str) or read is plain_json else text.decode("latin-1"))
        except ValueError as error:
            assert isinstance(error, NotPlain | UnicodeDecodeError | json.JSONDecodeError | tomllib.TOMLDecodeError)


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 400, str(2**63), str(-(2**63) - 1), "1e999", "-1e999"])
def test_a_number_that_is_too_large_is_refused_by_its_key(number: str) -> None:
    with pytest.raises(NotPlain, match="n_units: a number is too large"):
        plain_json(f'{{"a": {{"n_units": [1, {number}]}}}}')
    where = "at line 3" if len(number) > 4300 else "n_units: a number"
    with pytest.raises(NotPlain, match=where):
        plain_toml(f"[a]\n\nn_units = [1, {number}]")


def test_a_hexadecimal_number_that_python_reads_and_cannot_show_is_refused() -> None:
    with pytest.raises(NotPlain, match="too large"):
        plain_toml(f"n = 0x{'f' * 9000}")


@pytest.mark.parametrize("depth", [DEEPEST + 1, 900, 100_000])
def test_what_is_nested_too_deep_is_refused(depth: int) -> None:
    for read, text in ((plain_json, "[" * depth + "]" * depth), (plain_toml, f"a = {'[' * depth}{']' * depth}")):
        with pytest.raises(NotPlain, match="nested too deep"):
            read(text)
    with pytest.raises(NotPlain, match="nested too deep"):
        plain_toml(f"{'a.' * 900}a = 1")


def test_what_json_forbids_or_no_file_can_hold_is_refused() -> None:
    for text, words in (
        ('{"a": NaN}', "a: NaN"), ("[-Infinity]", "-Infinity"), ('{"a": 1, "a": 2}', "twice"),
        ('["\\ud800"]', "surrogate"),
    ):  # fmt: skip
        with pytest.raises(NotPlain, match=words):
            plain_json(text)
    assert plain_json('["\\ud83d\\ude00"]') == ["\U0001f600"]


def test_a_key_that_is_no_plain_word_is_not_told() -> None:
    with pytest.raises(NotPlain) as refused:
        plain_json('{"a value": 1e999}')
    assert "a value" not in str(refused.value)
