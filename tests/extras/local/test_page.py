"""The page in a real browser: it makes the reports that Python makes of the same words, and asks for nothing."""

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from reports.html import inlined
from synth.errors import SchemaError
from synth.schema import build_schema
from tests.extras.local.test_oracles import SMALL, Scripted, report_chances, scripts
from tests.extras.local.test_survey import people, schema_of
from tests.reports.browsing import check_page, visiting
from understudy.extras.local import page as pages
from understudy.extras.local.oracles import DirectEncoding, Oracle, UnaryEncoding
from understudy.extras.local.page import _rule, write_page
from understudy.extras.local.survey import AGAIN, NO_REPORT, Survey, collect

SCRIPT = "</script><script>alert(1)</script>"
COLUMNS: dict[str, Any] = {
    "age": {"kind": "integer", "bounds": [5, 90], "missing": True},
    "debt": {"kind": "integer", "bounds": [-(10**15), 10**15], "scale": "log", "spikes": [1000]},
    "income": {"kind": "real", "bounds": [0.0, 200.0], "decimals": 1, "bins": [0.0, 0.3, 50.0, 200.0]},
    "share": {"kind": "real", "bounds": [-1.5, 2.5]},
    "born": {"kind": "date", "bounds": ["1880-05-01", "2011-12-31"]},
    "paid": {"kind": "date", "bounds": ["2020-01-01", "2023-12-31"], "every": "month end"},
    "came": {"kind": "datetime", "bounds": ["1969-01-01T00:00:00", "2031-01-01T00:00:00"], "precision": "h"},
    "left": {"kind": "datetime", "bounds": ["2024-02-28T00:00:00", "2024-03-02T00:00:00"], "precision": "ms"},
    "job": {"kind": "categorical", "categories": ["clerk", "cook", SCRIPT, "{{7*7}}"]},
    "sex": {"kind": "boolean", "tokens": ["man", "woman"]},
    # No browser reads these as they are written: they are chosen among the bins.
    "seen": {"kind": "datetime", "bounds": ["2024-01-01T00:00:00", "2025-01-01T00:00:00"], "timezone": "Asia/Tokyo"},
    "wait": {"kind": "duration", "bounds": [0, 7200], "format": "[%-H h] [%-M min]"},
    "lead": {"kind": "real", "bounds": [0.0, 9.0], "decimals": 1, "below": ["<0"], "above": [99.0]},
}
TYPED = list(COLUMNS)[:8]
REPEATS, N = 12, 10_000


def asked(tmp_path: Path, survey: Survey) -> Path:
    write_page(survey, tmp_path / "survey.html")
    return tmp_path / "survey.html"


@pytest.fixture
def survey() -> Survey:
    schema = build_schema({"status": "declared", "n_units": 900, "dataset": SCRIPT, "columns": COLUMNS})
    return Survey.of(schema, 3.0, pairs=(("age", "job"), ("born", "lead")), n_answers=3)


# ---- The same probabilities, and the same reports of the same words.

TOLD = """hex => {
  let at = 0;
  const bytes = hex.match(/../g).map(byte => parseInt(byte, 16));
  crypto.getRandomValues = array => {
    new Uint8Array(array.buffer, array.byteOffset, array.byteLength).set(bytes.slice(at, at += array.byteLength));
    return array;
  };
}"""
"""The browser's generator gives these bytes, in turn."""


def ends(oracle: Oracle, words: list[int], last: bool) -> list[int]:
    """The first or the last words of the stretches that some words stand for."""
    if isinstance(oracle, DirectEncoding):
        others, kept = oracle.n_symbols - 1, oracle.n_true_words
        other, lie = words
        top = 2**64 - 2**64 % others
        # Before the last, a word that would favor some is drawn again.
        drawn = [*([2**64 - 1, top] if top < 2**64 else []), top - others + other] if last else [other]
        return [*drawn, (2**64 - 1 if lie else kept - 1) if last else (kept if lie else 0)]
    *bits, coin = words
    stretches = ((oracle.set_by_chance, 2**32 - 1) if bit else (0, oracle.set_by_chance - 1) for bit in bits)
    return [*(stretch[last] for stretch in stretches), 254 + coin if last else coin]


def packed(oracle: Oracle, words: list[int]) -> str:
    sizes = [8] * len(words) if isinstance(oracle, DirectEncoding) else [*[4] * oracle.n_cells, 1]
    return b"".join(word.to_bytes(size, "little") for word, size in zip(words, sizes, strict=True)).hex()


GIVEN = f"all => all.map(([rule, cell, hex]) => [({TOLD})(hex), randomized(rule, cell)][1])"


def check_chances(page: Any, oracle: Oracle) -> None:
    """Both ends of every stretch of words give what they give in Python, and each report has the same chance."""
    shape, dtype = ((1,), np.int64) if isinstance(oracle, DirectEncoding) else ((1, oracle.n_cells), np.bool_)
    stretches = list(scripts(oracle))
    for cell in range(oracle.n_cells):
        expected = {
            oracle.to_plain(np.frombuffer(report, dtype=dtype).reshape(shape))[0]: chance
            for report, chance in report_chances(oracle, cell).items()
        }
        for last in (False, True):
            drawn, chances = [ends(oracle, words, last) for words, _ in stretches], dict[Any, Fraction]()
            reports = page.evaluate(GIVEN, [[_rule(oracle), cell, packed(oracle, words)] for words in drawn])
            for words, report, (_, chance) in zip(drawn, reports, stretches, strict=True):
                assert report == oracle.to_plain(oracle.randomize(np.array([cell]), Scripted(words)))[0]
                chances[report] = chances.get(report, Fraction(0)) + chance
            assert chances == expected


@pytest.mark.parametrize("oracle", [*SMALL, DirectEncoding(7, 1.0)], ids=repr)
def test_page_and_python_agree_on_the_probability_of_every_report(
    browser: Any, oracle: Oracle, survey: Survey, tmp_path: Path
) -> None:
    with visiting(browser, asked(tmp_path, survey)) as visit:
        check_chances(visit.page, oracle)


MUTANTS = {
    "one word more": ("[0] >= BigInt(truths)", "[0] > BigInt(truths)", DirectEncoding(3, 1.0)),
    "a word that is no exact number": (
        "[0] >= BigInt(truths)",
        "[0] >= BigInt(Number(truths))",
        DirectEncoding(3, 1.0),
    ),
    "the truth among the others": ("(other >= truth)", "(other > truth)", DirectEncoding(3, 1.0)),
    "words that favor some": ("while (word >= whole)", "while (false)", DirectEncoding(4, 4.0)),
    "one bit more": ("word < chance", "word <= chance", UnaryEncoding(3, 1.0, True)),
    "a coin with one side": ("& 1) === 1", "| 1) > 0", UnaryEncoding(3, 1.0, True)),
}


@pytest.mark.parametrize(("code", "fault", "oracle"), MUTANTS.values(), ids=MUTANTS)
def test_a_fault_in_the_script_is_caught(
    browser: Any, code: str, fault: str, oracle: Oracle, survey: Survey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Path(pages.__file__).with_suffix(".js").read_text(encoding="utf-8")
    assert script.count(code) == 1
    (tmp_path / "page.js").write_text(script.replace(code, fault), encoding="utf-8")
    monkeypatch.setattr(pages, "inlined", lambda _: inlined(str(tmp_path / "page.js")))
    with visiting(browser, asked(tmp_path, survey)) as visit, pytest.raises(AssertionError):
        check_chances(visit.page, oracle)


CODES = """rows => rows.map(row => {
  row.forEach((value, number) => { document.getElementById(`field-${number}`).value = value; });
  return codes();
})"""


def answers(survey: Survey, n: int) -> tuple[pd.DataFrame, list[list[str]]]:
    """Answers as texts, at every edge, beyond the bounds and missing ones among them; and what stands in the fields."""
    rng, texts = np.random.default_rng(0), dict[str, list[str]]()
    for name in TYPED:
        column: Any = survey.schema.columns[name]
        low, high = column.span
        lines = survey.discretizer.attributes[list(COLUMNS).index(name)].line[0]
        width = (high - low) / 8
        near = [edge + by for edge in (*lines, low, high) for by in (0, column.unit or 1e-9, -(column.unit or 1e-9))]
        at = np.concatenate([rng.choice(near, n // 2), rng.uniform(low - width, high + width, n - n // 2)])
        if column.is_time:
            form = "D" if column.is_date else "ms" if name == "left" else "s"
            micros = (np.round(at) * column.per_position).astype(np.int64).astype("datetime64[us]")
            texts[name] = micros.astype(f"datetime64[{form}]").astype(str).tolist()
        else:
            decimals = 0 if column.is_whole else column.decimals
            texts[name] = [repr(float(each)) if decimals is None else f"{each:.{decimals}f}" for each in at]
    texts["job"] = rng.choice([*COLUMNS["job"]["categories"], "spy"], n).tolist()
    texts["sex"] = rng.choice(["man", "woman"], n).tolist()
    texts["seen"] = rng.choice(["2024-03-01T00:00:00+00:00", "2024-12-31T23:59:59+09:00"], n).tolist()
    texts["wait"] = rng.choice(["1 h 5 min", "20 min"], n).tolist()
    texts["lead"] = rng.choice(["<0", "99.0", "4.5"], n).tolist()
    frame = pd.DataFrame(texts, dtype=object)[list(COLUMNS)].mask(rng.random((n, len(COLUMNS))) < 0.05, None)
    fields, coded = frame.fillna("").astype(str), survey.codes(frame)
    for name in list(COLUMNS)[8:]:  # options stand for codes, and the last code, missing, for no option
        missing = survey.discretizer.sizes[name] - 1
        fields[name] = ["" if code == missing else str(code) for code in coded[name]]
    return frame, fields.to_numpy().tolist()


def test_answers_are_read_into_the_same_bins(browser: Any, survey: Survey, tmp_path: Path) -> None:
    frame, fields = answers(survey, 1_500)
    expected = np.stack(list(survey.codes(frame).values()), axis=1)
    with visiting(browser, asked(tmp_path, survey)) as visit:
        coded = np.array(visit.page.evaluate(CODES, fields))
        labels = visit.page.locator("#field-8 option").all_inner_texts()
    assert survey.discretizer.columns == tuple(COLUMNS)
    wrong = np.argwhere(coded != expected)
    assert len(wrong) == 0, [(frame.iloc[i, j], coded[i, j], expected[i, j]) for i, j in wrong[:9]]
    assert labels == ["no answer", *COLUMNS["job"]["categories"], "another answer"]
    assert all(
        len(np.unique(expected[:, number])) >= size - 1
        for number, size in enumerate(survey.discretizer.sizes.values())
        if number < 8
    )


REPORTS = f"([all, told]) => all.map((row, i) => [({TOLD})(told[i]), report(({CODES})([row])[0])][1])"


class Stream:
    def __init__(self, content: bytes) -> None:
        self.content = content

    def __call__(self, n: int, dtype: type[np.unsignedinteger[Any]]) -> np.ndarray:
        size = n * np.dtype(dtype).itemsize
        taken, self.content = self.content[:size], self.content[size:]
        return np.frombuffer(taken, dtype=dtype)


def test_the_same_words_make_the_same_report(browser: Any, survey: Survey, tmp_path: Path) -> None:
    frame, fields = answers(survey, 30)
    told = [np.random.default_rng(i).bytes(4_000) for i in range(len(frame))]
    with visiting(browser, asked(tmp_path, survey)) as visit:
        reports = visit.page.evaluate(REPORTS, [fields, [content.hex() for content in told]])
    for row, content, report in zip(frame.to_dict("records"), told, reports, strict=True):
        assert report == survey.randomize(row, Stream(content))  # type: ignore[arg-type]
    numbers = {number for report in reports for number in report["answers"]}
    assert len(numbers) == len(survey.questions)


# ---- Ten thousand respondents.


@pytest.mark.statistical
@pytest.mark.parametrize(("epsilon", "pairs", "n_answers"), [(1.0, "none", 1), (4.0, "all", 2)])
def test_reports_of_the_page_vary_as_is_stated_intervals_cover_and_nobody_counts_twice(
    browser: Any, epsilon: float, pairs: Any, n_answers: int, tmp_path: Path
) -> None:
    survey = Survey.of(schema_of(N), epsilon, pairs=pairs, n_answers=n_answers)
    coded = survey.codes(people(N))
    truths = [
        np.bincount(question.cells(coded), minlength=question.oracle.n_cells) / N for question in survey.questions
    ]
    rows, rng = np.stack(list(coded.values()), axis=1).tolist(), np.random.default_rng(0)
    covered, squares = list[float](), list[float]()
    with visiting(browser, asked(tmp_path, survey)) as visit:
        for _ in range(REPEATS):
            reports = visit.page.evaluate("rows => rows.map(row => JSON.stringify(report(row)))", rows)
            again = [*reports, *(reports[i] for i in rng.integers(0, N, N // 10)), "secret"]
            (tmp_path / "reports").write_text("\n".join(again[i] for i in rng.permutation(len(again))))
            counts, left_out = collect(tmp_path / "reports", survey)
            assert (counts.n, left_out) == (N, {AGAIN: N // 10, NO_REPORT: 1})
            assert sum(counts.n_each) == n_answers * N and len(set(counts.n_each)) > 1
            inside, errors = list[np.ndarray](), list[np.ndarray]()
            for number, true in enumerate(truths):
                (low, high), (a, b, c) = counts.intervals(number), counts.variance(number)
                inside.append((low <= true) & (true <= high))
                errors.append((counts.shares(number) - true) ** 2 / (a + b * true + c * true * (1 - true)))
            covered.append(float(np.concatenate(inside).mean()))
            squares.append(float(np.concatenate(errors).mean()))
    for measured, expected in ((covered, 0.95), (squares, 1.0)):
        assert abs(np.mean(measured) - expected) < 5 * np.std(measured, ddof=1) / math.sqrt(REPEATS)


# ---- The page.


@pytest.mark.parametrize(
    ("width", "scheme", "scripts"), [(1280, "light", True), (390, "dark", True), (390, "light", False)]
)
def test_the_page_is_quiet_and_everybody_can_use_it(
    browser: Any, survey: Survey, width: int, scheme: str, scripts: bool, tmp_path: Path
) -> None:
    path = asked(tmp_path, survey)
    text = check_page(browser, path, width, java_script_enabled=scripts, color_scheme=scheme)
    assert SCRIPT in text and "{{7*7}}" in text
    assert "default-src 'none'" in path.read_text(encoding="utf-8")
    with visiting(browser, path, width, java_script_enabled=scripts) as visit:
        assert visit.page.is_visible("#form") == scripts
        assert not visit.page.is_visible("#done")


def test_a_report_is_made_once_and_is_all_that_is_left(browser: Any, survey: Survey, tmp_path: Path) -> None:
    with visiting(browser, asked(tmp_path, survey), 390) as visit:
        page = visit.page
        page.get_by_label("age").fill("4.5")
        page.get_by_role("button", name="Randomize").click()
        assert page.input_value("#report") == ""  # the browser asks for a whole number first
        page.get_by_label("age").fill("41")
        page.get_by_label("job").select_option("cook")
        page.get_by_label("age").press("Enter")
        first = page.input_value("#report")
        assert isinstance(survey.read(json.loads(first)), tuple)
        page.evaluate("form.requestSubmit()")
        assert page.input_value("#report") == first
        assert not page.is_visible("#form") and page.input_value("#field-0") == ""
        assert page.locator("#drawn li").count() == 3
        assert page.evaluate("document.activeElement.id") == "done"
        with page.expect_download() as saved:
            page.get_by_text("Save as a file").click()
        assert Path(saved.value.path()).read_text() == first
        assert (visit.told, len(visit.asked)) == ([], 1)


def asking(categories: list[str], epsilon: float, name: str = "job") -> Survey:
    columns = {name: {"kind": "categorical", "categories": categories}, "sex": {"kind": "boolean"}}
    return Survey.of(build_schema({"status": "declared", "n_units": 900, "columns": columns}), epsilon, pairs="none")


@pytest.mark.parametrize(
    "answers",
    [["no answer", "b"], ["another  answer", "b"], ["a" * 300 + "1", "a" * 300 + "2"], ["a\u202e", "a\u202d"]],
)
def test_answers_that_nobody_can_tell_apart_are_refused(answers: list[str], tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="columns=job have two answers"):
        write_page(asking(answers, 1.0), tmp_path / "survey.html")
    assert list(tmp_path.iterdir()) == []


def test_no_odds_are_rounded_down_and_no_probability_to_certainty(tmp_path: Path) -> None:
    question = "Do you really " * 20 + "work?"
    for epsilon, told in ((1.5, "at most 4.49 times"), (20.0, "more than 99.9%, each other with less than 0.1%")):
        text = asked(tmp_path, asking(["a", "b"], epsilon, question)).read_text(encoding="utf-8")
        assert told in text and "100%" not in text.partition("<main")[2] and text.count(question) >= 2


def test_an_old_browser_is_told_why_there_is_nothing_to_fill_in(
    browser: Any, survey: Survey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Path(pages.__file__).with_suffix(".js").read_text(encoding="utf-8")
    (tmp_path / "page.js").write_text(f"globalThis.BigUint64Array = undefined;\n{script}", encoding="utf-8")
    for shown in (False, True):
        with visiting(browser, asked(tmp_path, survey)) as visit:
            assert (visit.page.is_visible("#unable"), visit.page.is_visible("#form")) == (shown, not shown)
        monkeypatch.setattr(pages, "inlined", lambda _: inlined(str(tmp_path / "page.js")))
