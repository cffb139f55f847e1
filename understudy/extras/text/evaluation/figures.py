"""What a report draws of free text."""

from typing import Annotated

from pydantic import Field

from evaluate.figures import Count, FigurePart


class Example(FigurePart):
    """A synthetic text, and columns of its row with their values as texts."""

    text: str
    row: list[Annotated[list[str], Field(min_length=2, max_length=2)]]


class ColumnFigures(FigurePart):
    """A few synthetic texts of a column."""

    column: str
    examples: list[Example]


class Sentence(FigurePart):
    """A sentence of training texts that synthetic texts repeat, with how many rows of either table hold it."""

    sentence: str
    n_words: Count
    synthetic_rows: Count
    train_rows: Count


class CopiedColumn(FigurePart):
    column: str
    sentences: list[Sentence]


class CopiedTexts(FigurePart):
    columns: list[CopiedColumn]


DRAWN = list[ColumnFigures]
