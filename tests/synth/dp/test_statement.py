"""Privacy statements as plain data: whom one must trust."""

from typing import Any

import pytest

from synth import extras
from synth.dp.statement import LOCAL, RELATION, REPLACE, PrivacyStatement, guarantee_words, trust_words
from tests.evaluations import stated


def test_a_statement_has_every_key() -> None:
    content = stated().to_dict()
    assert PrivacyStatement.from_dict(content) == stated()
    del content["trust"]
    with pytest.raises(ValueError, match="every key"):
        PrivacyStatement.from_dict(content)


@pytest.mark.parametrize("trust", ["curator", *extras.load("trust")])
def test_trust_is_read_back_and_shown_in_a_notebook(trust: str) -> None:
    statement = PrivacyStatement.from_dict(stated(trust=trust).to_dict())
    assert statement.trust == trust
    assert trust_words()[trust].replace("'", "&#x27;") in statement._repr_html_()


def test_a_local_statement_is_named_beside_its_epsilon() -> None:
    local = stated(trust=LOCAL, relation=REPLACE, delta=0.0)
    assert guarantee_words(local) == "epsilon 1, delta 0.0, unit 'row', local"


@pytest.mark.parametrize(
    "known",
    [
        {"trust": "nobody"},
        {"trust": LOCAL, "delta": 0.0, "relation": RELATION},
        {"trust": LOCAL, "delta": 1e-6, "relation": REPLACE},
        {"relation": REPLACE},
    ],
)
def test_a_local_claim_is_pure_and_of_another_relation_than_all_others(known: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"trust|local"):
        PrivacyStatement.from_dict({**stated().to_dict(), **known})
