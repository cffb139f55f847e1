"""Themes of public texts: told row by row, saved, and dealt to synthetic rows."""

import re

import numpy as np
import pytest

from synth.errors import JobError
from synth.table import conform
from tests.text_tables import TEXT, complaint_schema, complaints
from understudy.extras.text.themes import Themes, theme_names

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
