"""What a file says wrong is told in the words of the file, with what to do about it."""

from typing import Any

import pytest
from pydantic import Field, ValidationError

from synth.validation import Frozen, sentence


class Settings(Frozen):
    share: float = Field(default=0.2, lt=1)
    name: str = Field(default="a", min_length=1)
    seeds: tuple[int, ...] = Field(default=(0,), min_length=1)
    often: bool = False


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"share": 1}, "share=1: input should be less than 1; choose a smaller number"),
        ({"name": ""}, "name='': text should have at least 1 character; write more, or leave the key out"),
        ({"seeds": []}, "seeds=[]: list should have at least 1 item, not 0; write more, or leave the key out"),
        ({"seeds": 3}, "seeds=3: input should be a valid list; write a list, as [1, 2]"),
        ({"often": "at times"}, "write true or false"),
        ({"share": "half"}, "write a number without quotes"),
    ],
)
def test_a_value_that_is_out_of_place_comes_with_a_remedy(content: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as error:
        Settings.model_validate(content)
    assert said in sentence(error.value, Settings)
