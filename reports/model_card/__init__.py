"""The model card of a synthetic table: data first, then YAML and Markdown with a dataset card's front matter."""

from reports.model_card.card import CardError, CardFacts, internal_card, public_card
from reports.model_card.render import card_content, to_markdown, to_yaml, write_card
from reports.model_card.schema import InternalCard, ModelCard, PublicCard, card_json

__all__ = [
    "CardError",
    "CardFacts",
    "InternalCard",
    "ModelCard",
    "PublicCard",
    "card_content",
    "card_json",
    "internal_card",
    "public_card",
    "to_markdown",
    "to_yaml",
    "write_card",
]
