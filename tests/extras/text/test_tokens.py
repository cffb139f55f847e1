"""Tokens of texts and prompts, and the sequences that a model reads: none depends on another row."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.schema import Schema, build_schema
from synth.table import conform
from tests.extras.text.tiny import canonical, coded
from tests.text_tables import TEXT, complaint_schema, complaints
from understudy.extras.text.tokens import (
    END,
    MOST_VALUES,
    N_RANGES,
    N_SPECIAL,
    OTHER,
    BytePairs,
    Prompts,
    sequences_of,
)

BYTES = BytePairs.learned([], 300)
LEARNED = BytePairs.learned(complaints(80, 3)[TEXT], 400)


@settings(max_examples=40)
@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_every_text_has_tokens_that_give_it_back(text: str) -> None:
    for tokenizer in (BYTES, LEARNED):
        tokens = tokenizer.tokens(text)
        assert tokenizer.text(tokens) == text.replace("\ufffd", "")
        assert all(N_SPECIAL <= token < tokenizer.size for token in tokens)


def test_without_texts_a_token_is_a_byte_and_with_texts_there_are_fewer() -> None:
    text = complaints(1, 4)[TEXT][0]
    assert len(BYTES.tokens(text)) == len(text.encode())
    assert BYTES.size == N_SPECIAL + 256
    assert len(LEARNED.tokens(text)) < len(text) / 2
    assert LEARNED.size <= N_SPECIAL + 400


def test_tokens_that_break_a_character_off_are_left_out() -> None:
    tokens = BYTES.tokens("né")
    assert BYTES.text(tokens[:-1]) == "n"


def test_a_tokenizer_is_written_and_read_as_text() -> None:
    again = BytePairs.from_text(LEARNED.to_text())
    text = complaints(1, 8)[TEXT][0]
    assert again.tokens(text) == LEARNED.tokens(text)
    for damaged in ("", "{}", '{"model": {"type": "BPE"}}'):
        with pytest.raises(ValueError, match="no tokenizer"):
            BytePairs.from_text(damaged)


def kinds() -> tuple[pd.DataFrame, Schema]:
    """Each kind of column that a prompt tells of, with missing values."""
    schema = build_schema({
        "status": "inferred",
        "columns": {
            "town": {"kind": "categorical", "categories": ["N", "S", "W"], "missing": True},
            "age": {"kind": "integer", "bounds": [0, 100], "missing": True},
            "gain": {"kind": "real", "bounds": [0, 1e6], "scale": "log"},
            "day": {"kind": "date", "bounds": ["2020-01-01", "2021-01-01"], "missing": True},
            "ill": {"kind": "boolean"},
            "note": {"kind": "text", "learn": True},
        }
    })  # fmt: skip
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "town": rng.choice(["N", "S", None], 300), "age": pd.array(rng.integers(0, 101, 300), dtype="Int64"),
        "gain": rng.lognormal(5, 1, 300), "ill": rng.random(300) < 0.5, "note": "x",
        "day": np.datetime64("2020-01-01", "us") + rng.integers(0, 300, 300) * np.timedelta64(1, "D"),
    })  # fmt: skip
    frame.loc[:9, ["age", "day"]] = None
    return conform(frame, schema), schema


def test_codes_tell_ranges_values_and_missing_ones_apart() -> None:
    frame, schema = kinds()
    prompts = Prompts.of(frame, schema)
    sizes = dict(zip(schema.learned, prompts.sizes, strict=True))
    # No synthetic row has W: its code is that of all others.
    assert sizes == {"town": 2 + 2, "age": N_RANGES + 1, "gain": N_RANGES + 1, "day": N_RANGES + 1, "ill": 2 + 2}
    own = prompts.codes(frame) - np.concatenate([[0], np.cumsum(prompts.sizes)[:-1]])
    assert (own >= 0).all()
    assert (own < np.array(prompts.sizes)).all()
    for place, name in enumerate(schema.learned):
        gone = frame[name].isna().to_numpy()
        assert ((own[:, place] == sizes[name] - 1) == gone).all()
    held = np.bincount(own[~frame["age"].isna().to_numpy(), 1], minlength=N_RANGES)[:N_RANGES]
    assert held.min() > 290 / N_RANGES / 2  # ranges of about as many rows
    other = conform(frame.tail(1).assign(town="W", age=100), schema, outside="clamp")
    assert prompts.codes(other)[0, 0] == OTHER
    assert prompts.codes(other)[0, 1] == sizes["town"] + N_RANGES - 1


def test_a_column_of_very_many_values_has_codes_for_the_most_frequent() -> None:
    names = [f"v{i:03d}" for i in range(100)]
    columns = {"v": {"kind": "categorical", "categories": names}, TEXT: {"kind": "text", "learn": True}}
    schema = build_schema({"status": "inferred", "columns": columns})
    frame = conform(pd.DataFrame({"v": [*names, *names[50:]], TEXT: "x"}), schema)
    prompts = Prompts.of(frame, schema)
    assert prompts.sizes == (MOST_VALUES + 2,)
    assert prompts.to_plain()[0]["values"][:50] == tuple(names[50:])
    assert Prompts.from_plain(json.loads(json.dumps(prompts.to_plain())), schema) == prompts


def test_prompts_of_no_rows_or_of_nothing_but_missing_values_still_code_every_row() -> None:
    frame, schema = kinds()
    bare = frame.head(5).assign(town=None, age=pd.NA, gain=np.nan, day=pd.NaT, ill=pd.NA)
    for poor in (frame.head(0), bare):
        prompts = Prompts.of(poor.astype(frame.dtypes), schema)
        codes = prompts.codes(frame)
        assert codes.min() >= 0
        assert codes.max() < sum(prompts.sizes)


def test_a_prompt_in_words_names_each_column_and_ends_with_the_column_of_text() -> None:
    frame, schema = kinds()
    line = Prompts.of(frame, schema).lines(frame.iloc[[0]].assign(town="N", ill=True), "note")[0]
    assert line.startswith("town: N\nage: missing\ngain: ")
    assert line.endswith("ill: true\nnote:") or line.endswith("ill: True\nnote:")


@pytest.mark.parametrize(
    "damage", [{"values": [1]}, {"name": "another"}, {"edges": ["a"]}, {"edges": [float("nan")]}, {"edges": 3}]
)
def test_damaged_prompts_are_refused(damage: dict[str, object]) -> None:
    schema = complaint_schema()
    plain = Prompts.of(canonical(20), schema).to_plain()
    with pytest.raises((ValueError, TypeError, KeyError)):
        Prompts.from_plain([{**plain[0], **damage}, *plain[1:]], schema)


@pytest.mark.parametrize("learned", [False, True])
def test_a_sequence_depends_on_its_own_row_and_its_shape_on_public_numbers(learned: bool) -> None:
    rows = canonical(30)
    vocabulary = coded(rows[TEXT] if learned else ())
    whole = sequences_of(vocabulary, rows, TEXT, max_tokens=20, length=60)
    assert whole.shape == (30, vocabulary.n_prompt + 21)
    alone = [sequences_of(vocabulary, rows.iloc[[i]], TEXT, max_tokens=20, length=60) for i in range(30)]
    assert (np.concatenate(alone) == whole).all()
    assert sequences_of(vocabulary, rows.head(0), TEXT, max_tokens=20, length=60).shape == (0, whole.shape[1])


def test_a_sequence_is_its_prompt_then_its_text_then_its_end() -> None:
    rows = canonical(4)
    rows[TEXT] = ["ab", None, "abcdefgh", "ab"]
    vocabulary = coded()
    sequences = sequences_of(vocabulary, rows, TEXT, max_tokens=5, length=7)
    n = vocabulary.n_prompt
    prompts = vocabulary.prompts(rows, TEXT)
    assert (sequences[:, :n] == np.array(prompts) + 1).all()
    assert len(set(sequences[:, n - 1])) == 1
    told = [[int(token) - 1 for token in row[n:] if token] for row in sequences]
    a, b, c, d, e, f = vocabulary.tokens("abcdef")
    assert told == [[a, b, END], [], [a, b, c, d, e, f], [a, b, END]]
    assert vocabulary.text(told[0][:-1]) == "ab"
    assert sequences_of(vocabulary, rows, TEXT, max_tokens=5, length=1)[2, n + 1] == END + 1


def test_tokens_of_prompts_are_never_sampled_and_those_of_texts_may_be() -> None:
    vocabulary = coded()
    barred = vocabulary.never_sampled()
    assert barred.shape == (vocabulary.size,)
    asked = {token for prompt in vocabulary.prompts(canonical(40), TEXT) for token in prompt}
    assert barred[list(asked)].all()
    assert not barred[[*vocabulary.tokens("Any text at all"), END]].any()
