"""Usage terms of a synthetic table: what it is for, what it is not for, license, contact."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator

from synth.validation import Frozen

LANGUAGE = re.compile(r"[a-z]{2,3}|code|multilingual")
"""An ISO 639 code of two or three letters, or one of two words that stand beside them in dataset cards."""


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Text = Annotated[str, Field(min_length=1, max_length=4000)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_as_list, json_schema_input_type=Text | tuple[Text, ...])]
Names = Annotated[tuple[Name, ...], BeforeValidator(_as_list, json_schema_input_type=Name | tuple[Name, ...])]


class Terms(Frozen):
    """The terms of whoever hands a table on; the card fills in those that are left out."""

    intended_use: Texts = Field(default=(), description="Purpose; left out: software tests and exploration.")
    prohibited_use: Texts = Field(default=(), description="What it must not be used for, besides what the card says.")
    license: Name | None = Field(default=None, description="A license identifier, such as cc-by-4.0, or a name.")
    contact: Name | None = Field(default=None, description="Whom to ask, and to tell of a leak.")
    language: Names = Field(default=("en",), description="Of the columns' names and texts: ISO 639 codes.")
    tags: Names = Field(default=(), description="Further tags of the card.")
    pretty_name: Name | None = Field(default=None, description="Title of the card; left out: the job's.")
    citation: Text | None = Field(default=None, description="How to cite the table.")

    @field_validator("language")
    @classmethod
    def _codes(cls, language: tuple[str, ...]) -> tuple[str, ...]:
        for code in language:
            if LANGUAGE.fullmatch(code) is None:
                raise ValueError(f'language={code!r} is no ISO 639 code; write two or three letters, such as "en"')
        return language
