"""Tables with a column of free text: complaints whose words follow from product, channel and rating, with secrets."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from synth.schema import Schema, build_schema

PRODUCTS = ("card", "loan", "mortgage", "transfer")
CHANNELS = ("branch", "phone", "web")
TEXT = "complaint"
_OPENINGS = (
    "I am writing about my {product}.", "This is about the {product} I have with you.",
    "My {product} has given me trouble again.", "For weeks I have had the same problem with my {product}.",
    "Please look at my {product}.", "I opened a {product} in {month}.",
)  # fmt: skip
_CAUSES: Mapping[str, tuple[str, ...]] = {
    "card": ("a payment was taken twice", "the chip does not work abroad", "a fee of {amount} dollars appeared",
             "the limit was lowered without a word"),
    "loan": ("the rate went up in {month}", "my installment of {amount} dollars was booked late",
             "nobody can tell me what is left to pay", "the contract names another term"),
    "mortgage": ("the escrow account is short by {amount} dollars", "the appraisal was lost in {month}",
                 "my house insurance was paid twice", "the closing was moved three times"),
    "transfer": ("{amount} dollars never arrived", "the money went to a closed account",
                 "it took nine days to reach {city}", "the exchange rate was not the one shown"),
}  # fmt: skip
_MANNERS: Mapping[str, tuple[str, ...]] = {
    "branch": ("The clerk in {city} sent me away.", "I waited an hour at the counter."),
    "phone": ("I was on hold for forty minutes.", "The agent on the line hung up."),
    "web": ("The site shows an error each time.", "Your form did not take my answer."),
}
_ENDINGS: Mapping[str, tuple[str, ...]] = {
    "bad": ("I am very angry and will leave.", "This is a disgrace.", "I want my money back at once."),
    "fair": ("Please correct it soon.", "I expect an answer this week."),
    "good": ("Otherwise I am happy with your service.", "Thank you for your kind help.", "All was solved quickly."),
}
_CITIES = ("Boston", "Denver", "Fresno", "Omaha", "Salem", "Tampa")
_MONTHS = ("March", "June", "August", "October")
_NAMES = ("Aldana", "Brecht", "Cisneros", "Dubrov", "Eklund", "Farkas", "Grimaldi", "Haddad", "Ivarsson", "Jurado")


def complaints(n_rows: int, seed: int, n_secrets: int = 0) -> pd.DataFrame:
    """A table of complaints: product, channel, rating, amount, and a text that follows from them.

    Args:
        n_rows: of the table.
        seed: of all draws.
        n_secrets: rows, the first ones, each of whose texts ends with a sentence that no other row holds: a name, a
            telephone number and a code.
    """
    rng = np.random.default_rng(seed)
    product, channel = rng.choice(PRODUCTS, n_rows, p=(0.4, 0.3, 0.1, 0.2)), rng.choice(CHANNELS, n_rows)
    rating = np.where(channel == "phone", rng.integers(1, 4, n_rows), rng.integers(1, 6, n_rows))
    amount = np.round(np.exp(rng.normal(4.5, 0.8, n_rows))).clip(5, 5_000).astype(np.int64)
    texts = [_text(*row, rng) for row in zip(product, channel, rating, amount, strict=True)]
    for index in range(n_secrets):
        texts[index] += " " + secret(rng)
    columns: dict[str, Any] = {"product": product, "channel": channel, "rating": rating, "amount": amount, TEXT: texts}
    return pd.DataFrame(columns)


def secret(rng: np.random.Generator) -> str:
    """A sentence that hardly any other draw repeats."""
    number, code = rng.integers(1_000_000, 9_999_999), rng.integers(10_000, 99_999)
    return f"Call {rng.choice(_NAMES)} at 617-{number // 10_000}-{number % 10_000:04d}, code QX{code}."


def _text(product: str, channel: str, rating: int, amount: int, rng: np.random.Generator) -> str:
    mood = "bad" if rating <= 2 else "fair" if rating == 3 else "good"
    cause = rng.choice(_CAUSES[product])
    parts = [rng.choice(_OPENINGS), f"{cause[0].upper()}{cause[1:]}.", rng.choice(_MANNERS[channel])]
    parts.append(rng.choice(_ENDINGS[mood]))
    if rng.random() < 0.3:
        del parts[0]
    words = {"product": product, "amount": amount, "city": rng.choice(_CITIES), "month": rng.choice(_MONTHS)}
    return " ".join(parts).format(**words)


def complaint_schema(n_units: int | None = None, **of_text: Any) -> Schema:
    """The schema of such a table, declared where it names units.

    Args:
        n_units: public number of rows; `None`: the schema is inferred.
        of_text: further keys of the column of text.
    """
    columns = {
        "product": {"kind": "categorical", "categories": list(PRODUCTS)},
        "channel": {"kind": "categorical", "categories": list(CHANNELS)},
        "rating": {"kind": "integer", "bounds": [1, 5]},
        "amount": {"kind": "integer", "bounds": [5, 5_000]},
        TEXT: {"kind": "text", "learn": True, "length": 240, **of_text},
    }
    content: dict[str, Any] = {"status": "inferred", "target": "rating", "columns": columns}
    if n_units is not None:
        content |= {"status": "declared", "n_units": n_units}
    return build_schema(content)
