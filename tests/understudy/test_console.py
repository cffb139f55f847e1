"""What people read is whole where nobody looks on: in a file no line is broken."""

from typing import Any

import pytest

from evaluate.text import loss, typed_loss
from understudy.console import Console


@pytest.mark.parametrize("n", [1, 60, 74, 75, 76, 77, 78, 79, 80, 81, 300])
def test_a_table_in_a_file_has_one_line_for_each_row(n: int, capsys: Any) -> None:
    sentence = "w " * (n // 2) + "end"
    Console().table(("name", "kind", "what it says"), [("a", "longer", sentence), ("b", "c", "short")])
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith(" a "))
    assert line.rstrip().endswith(sentence)


def test_what_a_hostile_name_holds_moves_no_cursor_in_any_way_of_saying_it(capsys: Any) -> None:
    hostile, console = "a\x1b[2J\u202eb\udcff\n", Console(json=True)
    console.say(hostile)
    console.warn(hostile)
    console.table(("a", "b"), [(hostile, [hostile, "c"])])
    console.result({hostile: hostile})
    text = capsys.readouterr()
    for line in (text.out + text.err).split("\n"):
        assert not line or line.isprintable(), line


@pytest.mark.parametrize("epsilon", [0.8083544281560413, 0.8, 1.0001, 9.994, 12.34, 0.0123456])
def test_a_claim_is_quoted_in_three_digits_that_never_understate_it(epsilon: float) -> None:
    assert typed_loss(epsilon) == loss(epsilon)
    assert float(loss(epsilon)) >= epsilon
