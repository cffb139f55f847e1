"""The reference of the manual beside the code that it is derived from."""

import pydoc
import re
from pathlib import Path

import pytest

import evaluate
import reports
import synth
import understudy
from benchmarks.reference import DERIVED, PARTS, pages, renewed, value

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", pages(ROOT), ids=lambda page: page.name)
def test_a_page_is_what_the_code_says(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == renewed(text), "run `python -m benchmarks.reference`"


def test_every_command_key_and_metric_stands_in_one_place() -> None:
    shown = [name for page in pages(ROOT) for _, name, _ in DERIVED.findall(page.read_text(encoding="utf-8"))]
    assert sorted(shown) == sorted(PARTS)


def test_the_api_has_every_public_name() -> None:
    page = (ROOT / "docs/reference/python.md").read_text(encoding="utf-8")
    shown = [pydoc.locate(name) for name in re.findall(r"^::: (\S+)$", page, re.MULTILINE)]
    for package in (understudy, synth, evaluate, reports):
        assert [name for name in package.__all__ if getattr(package, name) not in shown] == []


def test_values_are_told_in_words() -> None:
    assert value({"anyOf": [{"type": "integer", "minimum": 100}, {"const": "all"}]}) == 'integer ≥ 100 or `"all"`'
    assert value({"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}]}) == "number > 0"
    assert value({"type": "array", "items": {"type": "string"}}) == "list of text"
