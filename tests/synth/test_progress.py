"""Progress in a notebook: one bar, which is gone at the end; nothing anywhere else."""

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import synth
from synth.progress import quiet, shown


class Notebook:
    """A stand-in for IPython, as a kernel has it: every bundle that it was asked to show, in order."""

    def __init__(self) -> None:
        self.new: list[dict[str, str]] = []
        self.changes: list[dict[str, str]] = []
        self.display = SimpleNamespace(display=self._show)

    def get_ipython(self) -> Any:
        return SimpleNamespace(kernel=object())

    def _show(self, bundle: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw
        assert display_id
        self.new.append(bundle)
        return self

    def update(self, bundle: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.changes.append(bundle)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    display = Notebook()
    monkeypatch.setitem(sys.modules, "IPython", display)  # type: ignore[arg-type]
    yield display


def test_a_notebook_shows_one_bar_that_is_gone_at_the_end_and_a_named_progress_none(notebook: Notebook) -> None:
    table, told = pd.DataFrame({"a": np.arange(300) % 9, "b": ["x", "y"] * 150}), list[str]()
    synth.fit(table, synth.infer_schema(table), "independent")
    assert len(notebook.new) == 1
    assert "<progress" in notebook.new[0]["text/html"]
    assert notebook.changes[-1] == {"text/plain": "", "text/html": ""}
    synth.fit(table, synth.infer_schema(table), "independent", progress=lambda label, share: told.append(label))
    assert told and len(notebook.new) == 1


def test_the_bar_is_gone_after_an_error_and_its_label_is_text(notebook: Notebook) -> None:
    with pytest.raises(ValueError, match="broken"), shown(None) as tell:
        tell("<b>", 0.5)
        raise ValueError("broken")
    assert "&lt;b&gt;" in notebook.new[0]["text/html"]
    assert notebook.changes[-1]["text/html"] == ""


def test_a_script_shows_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert "IPython" not in sys.modules or not hasattr(sys.modules["IPython"].get_ipython(), "kernel")
    with shown(None) as tell:
        assert tell is quiet
    assert capfd.readouterr() == ("", "")
