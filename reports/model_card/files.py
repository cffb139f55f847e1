"""A model card on the disk: one file for programs, one for people."""

from pathlib import Path
from typing import Any

from reports.model_card.markdown import to_markdown
from reports.model_card.shape import ModelCard
from reports.model_card.yaml import to_yaml
from synth.output import whole_file


def card_content(card: ModelCard) -> dict[str, Any]:
    """The card as plain data, as its JSON Schema describes it."""
    content: dict[str, Any] = card.model_dump(mode="json")
    return content


def write_card(card: ModelCard, yaml_path: Path, markdown_path: Path) -> tuple[Path, Path]:
    """Both files of a card, each whole or not there.

    Args:
        card: of either form.
        yaml_path: such as `cards/LABEL.yaml` of a bundle, or `model-card.yaml` of a public one.
        markdown_path: such as `cards/LABEL.md`, or `README.md`, which Hugging Face shows.

    Raises:
        OutputError: a file cannot be written.
    """
    for path, content in ((yaml_path, to_yaml(card_content(card))), (markdown_path, to_markdown(card))):
        with whole_file(path) as beside:
            beside.write_text(content, encoding="utf-8", newline="\n")
    return yaml_path, markdown_path
