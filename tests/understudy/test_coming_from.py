"""The page for people who know another library: its code runs, this project's and SDV's."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

PAGE = Path(__file__).parents[2] / "docs/how-to/coming-from.md"
OURS, SDV = "understudy", "SDV"


def blocks(*libraries: str) -> Iterator[str]:
    """The Python of some libraries, in the order of the page; a block's first line names its library."""
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE):
        first = re.match(r"# (\w[\w-]*)", block)
        assert first is not None, block
        if first[1] in libraries:
            yield block


def patients() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 91, 600)
    town = rng.choice(["North", "South", "East"], 600)
    return pd.DataFrame(
        {"age": age, "income": rng.gamma(3, 20, 600).round(1), "town": town, "ill": rng.random(600) < age / 120}
    )


def carried_out(*libraries: str) -> dict[str, Any]:
    """The names that are left once the blocks ran one after the other, as in one notebook."""
    names: dict[str, Any] = {"real": patients()}
    for block in blocks(*libraries):
        exec(compile(block, PAGE.name, "exec"), names)
    return names


def test_all_code_of_the_page_is_python() -> None:
    result = list(blocks(OURS, SDV, "mostlyai", "ydata-synthetic"))
    assert len(result) == 19
    for block in result:
        ast.parse(block)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_code_of_this_project_and_of_sdv_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = carried_out(OURS, SDV)
    assert (tmp_path / "report.html").is_file()
    assert names["verdict"].verdict in ("PASS", "FAIL", "INCONCLUSIVE")
    assert names["table"].find("privacy.membership.auc").value < 1
    assert names["private"].statement.epsilon == pytest.approx(1.0, abs=0.01)
    assert 0 <= names["report"].get_score() <= 1
