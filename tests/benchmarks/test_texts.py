"""The benchmark of free text: secrets are in one row each, copies are told from fresh texts, public ones hold none."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import texts
from benchmarks.public_texts import like, unlike
from benchmarks.text_fits import LANDMARKS, LENGTH, N_SECRETS, REPEATED, SINGLE, Case, landmark, median
from tests.text_tables import TEXT


@pytest.fixture(scope="module")
def case() -> Case:
    return Case.of(600, 0)


def test_each_secret_is_in_as_many_rows_as_it_says(case: Case) -> None:
    held = case.train[TEXT].tolist()
    assert len(set(case.secrets)) == N_SECRETS
    assert [sum(secret in text for text in held) for secret in case.secrets] == [1] * N_SECRETS
    for canaries, (n, repeats, _) in ((case.single, SINGLE), (case.repeated, REPEATED)):
        assert len(canaries) == n
        for one in canaries:
            assert [row for row, text in enumerate(held) if one.sentence in text] == list(one.rows)
            assert len(one.rows) == repeats
    assert max(map(len, held)) <= LENGTH


def test_copies_are_found_and_fresh_texts_are_not(case: Case) -> None:
    copies, fresh, dealt = (landmark(case, name) for name in LANDMARKS)
    assert (copies["secrets"], copies["canaries, single"], copies["canaries, repeated"]) == (N_SECRETS, SINGLE[0], 4)
    assert copies["findings"]["privacy.texts.copied"] == copies["findings"]["privacy.texts.personal"] == "FAIL"
    assert fresh["secrets"] == fresh["canaries, single"] == 0
    assert fresh["verdict"] == "PASS"
    assert dealt["findings"]["texts.agreement.floor_share"] == "FAIL"
    assert dealt["findings"]["privacy.texts.copied"] == "PASS"


def test_public_texts_hold_no_secret_and_are_of_two_kinds(case: Case) -> None:
    same, other = "\n".join(like()), "\n".join(unlike())
    for text in (same, other):
        assert "Call " not in text
        assert not any(secret in text for secret in case.secrets)
    assert "card" in same
    assert "card" not in other


def test_medians_are_over_seeds_and_of_canaries() -> None:
    runs = [
        {"secrets": n, "exposure, single": [n, n + 2.0], "numbers of texts": {"a": [n / 2, 0, 1, None]}}
        for n in (1, 3, 8)
    ]
    assert median(runs, "secrets") == 3
    assert median(runs, "exposure, single") == 4
    assert median(runs, "a") == 1.5
    assert median(runs, "no such number") is None


def test_what_a_file_holds_is_drawn_without_a_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run: dict[str, Any] = {
        "case": "epsilon 1",
        "public": "none",
        "seed": 0,
        "secrets": 7,
        "verdict": "FAIL",
        "numbers of texts": {},
    }
    run["findings"] = {"privacy.texts.copied": "FAIL", "texts.words.excess": "PASS", "utility.texts.gap.worst": "FAIL"}
    kept = tmp_path / "texts.json"
    kept.write_text(json.dumps({"fits": {"it": run}}))
    texts.main(["--seeds", "0", "--out", str(kept)])
    drawn = capsys.readouterr().out
    assert "| epsilon 1 | none | 7 |" in drawn
    assert "| FAIL: leaks |" in drawn
    assert json.loads(kept.read_text()) == {"fits": {"it": run}}


def test_the_page_shows_what_was_measured() -> None:
    root = Path(__file__).parents[2]
    kept = json.loads((root / "benchmarks/texts.json").read_text(encoding="utf-8"))
    page = (root / "docs/how-to/free-text.md").read_text(encoding="utf-8")
    drawn = [line for line in texts._fits(kept["fits"]) if line in page.splitlines()]
    assert len(drawn) > 10
    shown = page[page.index(drawn[0]) :].split("\n\n")[0]
    assert shown.splitlines() == drawn
