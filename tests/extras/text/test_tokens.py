"""Tokens of texts and prompts, and the sequences that a model reads: none depends on another row."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.errors import JobError
from synth.schema import Schema, build_schema
from synth.table import conform
from tests.extras.text.tiny import canonical, coded
from tests.text_tables import TEXT, complaint_schema, complaints
from understudy.extras.text.themes import Themes, theme_names
from understudy.extras.text.tokens import END, N_RANGES, N_SPECIAL, OTHER, CodedVocabulary, byte_pairs, sequences_of

BYTES = coded()
LEARNED = CodedVocabulary(byte_pairs(complaints(80, 3)[TEXT], 400), (), complaint_schema())


@settings(max_examples=40)
@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_every_text_has_tokens_that_give_it_back(text: str) -> None:
    for vocabulary in (BYTES, LEARNED):
        tokens = vocabulary.tokens(text)
        assert vocabulary.text(tokens) == text.replace("\ufffd", "")
        assert all(N_SPECIAL <= token < vocabulary.n_written for token in tokens)


def kinds() -> tuple[pd.DataFrame, Schema]:
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
    vocabulary = CodedVocabulary.of(byte_pairs([], 300), frame, schema)
    sizes = {column.name: column.size for column in vocabulary.columns}
    # No synthetic row has W: its code is that of all others.
    assert sizes == {"town": 2 + 2, "age": N_RANGES + 1, "gain": N_RANGES + 1, "day": N_RANGES + 1, "ill": 2 + 2}
    own = {column.name: column.codes(frame[column.name], schema.columns[column.name]) for column in vocabulary.columns}
    for name, codes in own.items():
        assert (codes >= 0).all()
        assert ((codes == sizes[name] - 1) == frame[name].isna()).all()
        assert (codes < sizes[name]).all()
    sizes_of_ranges = np.bincount(own["age"][~frame["age"].isna()], minlength=N_RANGES)[:N_RANGES]
    assert sizes_of_ranges.min() > 290 / N_RANGES / 2  # ranges of about as many rows
    # Each column's codes are counted on from those of the one before.
    prompts = np.array(vocabulary.prompts(frame, "note"))[:, :-1] - vocabulary.n_written - 1
    assert (prompts - np.cumsum([0, *sizes.values()])[:-1] == np.stack([*own.values()], axis=1)).all()
    other = conform(frame.tail(1).assign(town="W", age=100), schema, outside="clamp")
    assert vocabulary.columns[0].codes(other["town"], schema.columns["town"]) == OTHER
    assert vocabulary.columns[1].codes(other["age"], schema.columns["age"]) == N_RANGES - 1


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


N = 8
PUBLIC = tuple(complaints(200, 3)[TEXT])


@pytest.fixture(scope="module")
def themes() -> Themes:
    return Themes.learned(PUBLIC, N)


def test_themes_of_a_text_depend_on_that_text_alone(themes: Themes) -> None:
    texts = [*complaints(40, 5)[TEXT], None, "", "Zebrafish quibble.", "  \n "]
    together = themes.of(texts)
    assert together.shape == (len(texts), N)
    for text, row in zip(texts, together, strict=True):
        assert np.array_equal(themes.of([text])[0], row)
    assert not together[-4:].any()
    assert together[:40].any(axis=1).all()
    assert not themes.of([]).size


def test_no_theme_is_read_off_characters_beyond_the_length_of_a_column(themes: Themes) -> None:
    schema = complaint_schema(length=20)
    rows = conform(complaints(40, 5), schema)
    short = rows.assign(**{TEXT: rows[TEXT].str[:20]})
    columns = theme_names([TEXT], N)
    assert themes.add_columns(rows, schema)[columns].equals(themes.add_columns(short, schema)[columns])
    assert not themes.add_columns(rows, complaint_schema())[columns].equals(themes.add_columns(rows, schema)[columns])


def test_a_sentence_has_the_theme_of_the_nearest_center(themes: Themes) -> None:
    sentences = ["I was on hold for forty minutes.", "The agent on the line hung up.", "Please correct it soon."]
    nearest = []
    for sentence in sentences:  # by hand: 1 + ln(count), weighed, of length one
        words = re.findall(r"\b\w\w+\b", sentence.lower())
        vector = [w * (1 + np.log(words.count(word))) if word in words else 0.0
                  for word, w in zip(themes.words, themes.weights, strict=True)]  # fmt: skip
        unit = np.array(vector) / np.linalg.norm(vector)
        nearest.append(int(np.square(unit - themes.centers).sum(1).argmin()))
    assert themes.of(sentences).argmax(1).tolist() == nearest
    assert themes.of([" ".join(sentences)])[0].sum() == len(set(nearest))


def test_too_few_sentences_are_refused() -> None:
    with pytest.raises(JobError, match=r"themes=8 .* lower themes, or give more texts"):
        Themes.learned(("The same one.",) * 50, N)


def test_a_public_text_is_dealt_a_row_of_about_its_themes(themes: Themes) -> None:
    rows = themes.add_columns(conform(complaints(300, 9), complaint_schema()), complaint_schema())
    dealt = themes.deal(PUBLIC, rows, TEXT, np.random.default_rng(0))
    columns, asked = theme_names([TEXT], N), themes.of(PUBLIC)
    assert np.array_equal(dealt[columns].to_numpy(dtype=bool), asked)
    # The channel that a row of those themes has is the channel that the text tells of.
    source = complaints(200, 3)["channel"]
    assert (dealt["channel"].astype(str).to_numpy() == source.to_numpy()).mean() > 0.6
