"""Regular expressions of ids and templates of identifiers: each says the same, or it is said that it cannot."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.columns import IdentifierColumn
from synth.identifiers import generate
from synth.sdv_metadata.columns import regex_of, template_of_regex


@pytest.mark.parametrize(
    ("regex", "template"),
    [
        ("[0-9]{5}", "#####"),
        (r"P-\d{4}", "P-####"),
        (r"P\-\d{4,4}", "P-####"),
        ("[A-Z]{2}[a-z]", "AAa"),
        ("^[0-9a-f]{8}-[0-9A-F]{4}$", "xxxxxxxx-XXXX"),
        (r"[a-f0-9]\.[\d]", "x.#"),
        ("Axa#", r"\A\x\a\#"),
        (r"\\\d", r"\\#"),
        (r"\$\d", "$#"),
        (r"é{2} \d", "éé #"),
    ],
)
def test_an_expression_of_one_length_is_a_template(regex: str, template: str) -> None:
    assert template_of_regex(regex) == template
    back = regex_of(template)
    assert template_of_regex(back) == template
    made = generate(IdentifierColumn(template=template), 1, np.random.default_rng(0))[0]
    assert re.fullmatch(regex, made)
    assert re.fullmatch(back, made)


@pytest.mark.parametrize(
    "regex",
    ["[A-Za-z]{5}", r"\w{3}", "[0-9]+", "[0-9]{2,4}", "a|b", "(ab){2}", "[^a]", "a.b", "[0-9]*", "", "[0-9", "a?",
     r"\x41", "[0-9]{999}"],
)  # fmt: skip
def test_what_a_template_cannot_say_is_none(regex: str) -> None:
    assert template_of_regex(regex) is None


@given(
    st.text(alphabet="#AaxX\\P0-. []{}$^é", min_size=1, max_size=30).filter(
        lambda text: (len(text) - len(text.rstrip("\\"))) % 2 == 0
    )
)
def test_every_template_comes_back_with_the_same_identifiers(template: str) -> None:
    made = generate(IdentifierColumn(template=template), 1, np.random.default_rng(0))[0]
    assert re.fullmatch(regex_of(template), made)
    back = template_of_regex(regex_of(template))
    assert back is not None
    assert regex_of(back) == regex_of(template)
