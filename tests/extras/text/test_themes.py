"""Themes of public texts: told row by row, saved, and dealt to synthetic rows."""

import numpy as np
import pandas as pd
import pytest

from synth.errors import JobError, SchemaError
from synth.table import conform
from tests.text_tables import TEXT, complaint_schema, complaints
from understudy.extras.text import themes as module
from understudy.extras.text.themes import Themes, theme_names, with_themes
from understudy.extras.text.tokens import Prompts

N = 8
PUBLIC = complaints(200, 3)[TEXT].tolist()


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


def test_sentences_are_told_pass_by_pass_as_at_once(themes: Themes, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = themes.of(PUBLIC)
    monkeypatch.setattr(module, "SENTENCES_A_PASS", 7)
    assert np.array_equal(themes.of(PUBLIC), at_once)


def test_no_theme_is_read_off_characters_beyond_the_length_of_a_column(themes: Themes) -> None:
    schema = complaint_schema(length=20)
    rows = conform(complaints(40, 5), schema)
    short = rows.assign(**{TEXT: rows[TEXT].str[:20]})
    columns = list(theme_names(TEXT, N))
    assert themes.add_columns(rows, schema)[columns].equals(themes.add_columns(short, schema)[columns])
    assert not themes.add_columns(rows, complaint_schema())[columns].equals(themes.add_columns(rows, schema)[columns])


def test_themes_tell_of_a_row_what_its_text_says(themes: Themes) -> None:
    table = complaints(600, 7)
    found = pd.DataFrame(themes.of(table[TEXT])).groupby(table["channel"]).mean()
    assert (found.max() - found.min()).max() > 0.5


def test_a_sentence_has_the_theme_of_the_nearest_center(themes: Themes) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    sentences = ["I was on hold for forty minutes.", "The agent on the line hung up.", "Please correct it soon."]
    peer = TfidfVectorizer(vocabulary=list(themes.words), sublinear_tf=True).fit(sentences)
    peer.idf_ = themes.weights.astype(np.float64)
    vectors = peer.transform(sentences).toarray()
    apart = np.square(vectors[:, None] - themes.centers.astype(np.float64)).sum(2)
    assert themes.of(sentences).argmax(1).tolist() == apart.argmin(1).tolist()
    assert themes.of([" ".join(sentences)])[0].sum() == len(set(apart.argmin(1)))


def test_sentences_that_no_blank_follows_have_themes_of_their_own() -> None:
    public = [
        "\u304a\u91d1\u304c\u306a\u3044\u3002\u96fb\u8a71\u304c\u5207\u308c\u305f\uff01",
        "\u96fb\u8a71\u3060\u3002",
        "\u304a\u91d1\u3060\u3002",
    ] * 3
    apart = Themes.learned(public, 2)
    assert apart.of(public[:1]).tolist() == [[True, True]]
    assert apart.of(public[1:3]).sum(axis=1).tolist() == [1, 1]


def test_themes_are_saved_whole(themes: Themes) -> None:
    again = Themes.loaded(list(themes.words), themes.to_arrays())
    assert np.array_equal(again.of(PUBLIC), themes.of(PUBLIC))
    assert again.described() == themes.described()
    for words, arrays in (
        (themes.words[1:], themes.to_arrays()),
        ((), {"weights": themes.weights[:0], "centers": themes.centers[:, :0]}),
        ((*themes.words[1:], themes.words[1]), themes.to_arrays()),
        (themes.words, {**themes.to_arrays(), "centers": themes.centers[:, 1:]}),
        (themes.words, {**themes.to_arrays(), "weights": themes.weights * np.float32(np.nan)}),
    ):
        with pytest.raises(ValueError, match="themes"):
            Themes.loaded(list(words), arrays)


@pytest.mark.parametrize(
    "public", [[], ["One two."], ["The same one."] * 50, ["a", "b", "c"], ["aa bb"] * 10 + ["aa aa bb bb"] * 10]
)
def test_too_few_sentences_are_refused(public: list[str]) -> None:
    with pytest.raises(JobError, match=r"themes=8 .* lower themes, or give more texts"):
        Themes.learned(public, N)


def test_columns_of_themes_stand_beside_the_others() -> None:
    schema = with_themes(complaint_schema(), [TEXT], 2)
    assert schema.learned[-2:] == theme_names(TEXT, 2) == (f"{TEXT}: theme 1", f"{TEXT}: theme 2")
    with pytest.raises(SchemaError, match="has the name of a theme of texts; rename it, or set themes = 0"):
        with_themes(schema, [TEXT], 1)


def test_a_public_text_is_dealt_a_row_of_about_its_themes(themes: Themes) -> None:
    schema = with_themes(complaint_schema(), [TEXT], N)
    table = complaints(300, 9)
    rows = themes.add_columns(conform(table, complaint_schema()), complaint_schema())
    dealt = themes.deal(PUBLIC, rows, TEXT, np.random.default_rng(0))
    columns, asked = list(theme_names(TEXT, N)), themes.of(PUBLIC)
    assert np.array_equal(dealt[columns].to_numpy(dtype=bool), asked)
    # The channel that a row of those themes has is the channel that the text tells of.
    source = complaints(200, 3)["channel"]
    assert (dealt["channel"].astype(str).to_numpy() == source.to_numpy()).mean() > 0.6
    assert conform(dealt, schema).equals(dealt[list(schema.kept)])


def test_a_prompt_in_words_names_the_themes_of_its_row(themes: Themes) -> None:
    schema = with_themes(complaint_schema(), [TEXT], N)
    words = dict(zip(theme_names(TEXT, N), themes.described(), strict=True))
    rows = themes.add_columns(conform(complaints(20, 1), complaint_schema()), complaint_schema())
    told = Prompts.of(rows, schema, words)
    for line, flags in zip(told.lines(rows, TEXT), themes.of(rows[TEXT]), strict=True):
        *_, of_themes, last = line.split("\n")
        assert last == f"{TEXT}:"
        assert of_themes == "themes: " + ", ".join(np.array(themes.described(), dtype=object)[flags])
        assert "theme 1" not in line
    # Of another column of text a row says nothing here.
    assert not any("themes:" in line for line in told.lines(rows, "another"))
    again = Prompts.from_plain(told.to_plain(), schema, words)
    assert again.lines(rows, TEXT) == told.lines(rows, TEXT)
