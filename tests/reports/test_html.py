"""The page as text: whole, deterministic, small, and harmless whatever the names in it are."""

import base64
import hashlib
import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import pytest

from evaluate.gate.policy import Policy, Rule
from evaluate.gate.verdict import Verdict, judge_candidate
from evaluate.result import Candidate, Estimate, Evaluation, Failure, GeneratorRecord
from evaluate.result_io import evaluation_from
from reports import render_html, write_html
from synth.dp.budget import CAVEATS
from synth.dp.statement import EventRecord, LedgerNote, PrivacyStatement
from synth.errors import OutputError
from tests.evaluations import altered, evaluation_of, origin
from tests.reports.samples import ranking, swept
from tests.reports.widened import widened

Verdicts = Callable[..., tuple[Verdict, ...]]
SECTIONS = (
    "verdict", "weakest", "policy", "guarantee", "comparison", "looks", "columns", "pairs", "utility", "attacks",
    "limits", "provenance", "signoff", "criteria", "glossary",
)  # fmt: skip
BAD = "<script>alert(3)</script>"
HOSTILE = {
    "age": "</script><script>alert(1)</script>", "workclass": "{{7*7}}", "fnlwgt": "long" * 2500,
    "education": "\u0627\u0644\u0639\u0645\u0631", "sex": "\U0001f469\u200d\U0001f680 sex",
    "race": "a\u202eb", "income": "\"'><img src=x onerror=alert(2)>&amp;",
}  # fmt: skip


class Page(HTMLParser):
    """Tags, and the text outside of style and of the page's own script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.scripts, self._inside = "", [], ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts.append(data)
        elif self._inside != "style":
            self.text += data


def own_script() -> str:
    return (files("reports") / "templates" / "report.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(audited: Evaluation, verdicts_of: Verdicts) -> str:
    return render_html(audited, verdicts=verdicts_of(audited), title="A census", release="mst")


def test_the_same_evaluation_gives_the_same_page(page: str, audited: Evaluation, verdicts_of: Verdicts) -> None:
    again = evaluation_from(audited.to_json())
    assert render_html(again, verdicts=verdicts_of(again), title="A census", release="mst") == page


def test_sections_stand_in_the_officers_order_and_say_that_they_read_real_data(page: str, audited: Evaluation) -> None:
    def sections(page: str) -> list[str]:
        inside = (a for tag, a in Page(page).tags if (tag == "h2" and "id" in a) or a.get("class") == "inside")
        return [str(attributes["id"]) for attributes in inside]

    assert sections(page) == list(SECTIONS)
    assert sections(render_html(replace(audited, ranking=ranking()))) == [SECTIONS[0], "ranking", *SECTIONS[1:]]
    assert render_html(swept()).index('id="sweep"') < render_html(swept()).index('id="verdict"')
    assert Page(page).text.count("outside the guarantee") == len(SECTIONS) - 2  # the first two have the page's notice


def test_the_page_names_nothing_outside_itself_and_every_link_leads_to_a_place_in_it(page: str) -> None:
    tags = Page(page).tags
    assert not {tag for tag, _ in tags} & {"img", "link", "iframe", "object", "base", "form"}
    targets = {str(value) for _, attributes in tags for name, value in attributes.items() if name in ("href", "src")}
    assert targets <= {f"#{attributes.get('id')}" for _, attributes in tags}
    assert not any(name.startswith("on") or name == "style" for _, attributes in tags for name in attributes)


def test_the_policy_of_the_page_allows_its_own_style_and_script_and_nothing_else(page: str) -> None:
    content = next(a["content"] for tag, a in Page(page).tags if a.get("http-equiv") == "Content-Security-Policy")
    sources = []
    for tag in ("style", "script"):
        (inside,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        sources.append(f"{tag}-src 'sha256-{base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()}'")
    assert content == f"default-src 'none'; {'; '.join(sources)}; base-uri 'none'; form-action 'none'"
    (script,) = Page(page).scripts
    assert script == own_script()
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "eval", "Function(", "fetch", "Storage", "cookie"):
        assert word not in script


def test_headings_have_an_order_and_header_cells_a_scope(page: str) -> None:
    tags = Page(page).tags
    assert all(a.get("scope") in ("col", "colgroup", "row") for tag, a in tags if tag == "th")
    levels = [int(tag[1]) for tag, _ in tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_hostile_names_are_text(make_evaluation: Callable[..., Evaluation], verdicts_of: Verdicts) -> None:
    hostile = make_evaluation(HOSTILE)
    odd = replace(hostile.candidates[2], name="a\x00c\ud800")
    hostile = replace(hostile, candidates=(*hostile.candidates[:2], odd))
    page = render_html(hostile, verdicts=verdicts_of(hostile), title=HOSTILE["age"])
    parsed = Page(page)
    assert "img" not in {tag for tag, _ in parsed.tags}
    assert parsed.scripts == [own_script()]
    for text in ("{{7*7}}", "</script><script>alert(1", HOSTILE["education"]):
        assert text in parsed.text
    for text in ("<bdi>49</bdi>", "\u202e", "\x00", "long" * 60):
        assert text not in page
    page.encode()


def test_hostile_texts_outside_the_columns_are_text(evaluation: Evaluation) -> None:
    """Of statements, generators, failures, provenance, figures of constraints and relations, and of vendors."""
    failure = Failure("columns.ks", "failed", BAD, (BAD,))
    first = evaluation.candidates[1]
    noise = {"sigma": 9.0, "sensitivity": 1}
    stated = PrivacyStatement(
        1.0, 1e-6, BAD, 39074, BAD, 1.1, (EventRecord(BAD, "Gaussian", noise, 1, 0.1),), versions={BAD: BAD},
        ledger=LedgerNote(BAD, BAD, BAD, BAD, 1.0, 1.0, 2.0, 1e-6), caveats=(BAD,), private=False,
    )  # fmt: skip
    law = {"rule": BAD, "n": 10, "n_broken": 1, "n_unreadable": 0, "reference": 1.0, "floor": 0.4}
    law["shapes"] = [{"shape": BAD, "n": 1}]
    kept = {"relation": BAD, "kept": 0.1, "reference": 1.0, "floor": 0.0, "real": BAD, "synthetic": BAD}
    validity = {"constraints": [law], "columns": [{"column": BAD, "n": 9, "n_broken": 3, "note": BAD}]}
    figures = {**first.figures, "validity": validity, "relations": [kept]}
    table = Candidate(BAD, first.estimates, (failure,), figures, stated, GeneratorRecord(BAD, {BAD: BAD}), {BAD: 1.0})
    known = origin(job=BAD, run_id=BAD, split=BAD, warnings=[BAD], versions={BAD: BAD}, files_sha256={BAD: BAD})
    hostile = Evaluation((table,), evaluation.real, evaluation.schema, known)
    for shown in (hostile, replace(hostile, ranking=ranking(BAD)), swept(generators=(BAD, "b"))):
        page = Page(render_html(shown))
        assert page.scripts == [own_script()]
        assert BAD in page.text


def test_long_texts_are_cut_and_short_ones_are_whole(evaluation: Evaluation) -> None:
    long, plain = (len(render_html(replace(evaluation, ranking=ranking(name)))) for name in ("x" * 10_000, "acme"))
    assert long < plain + 20_000
    first = evaluation.candidates[0]
    failure = Failure("columns.chi2", "failed", f"{'for a reason, ' * 20}it ended; do it again")
    first = replace(first, statement=altered(first.statement, {"caveats": CAVEATS}), failures=(failure,))
    rule = Rule(measure="validity.rows", limit=0.9, why=f"{'because, ' * 30}in the end")
    verdict = judge_candidate(first, Policy(name="test", version=1, audience="nobody", rules=(rule,)))
    text = Page(render_html(replace(evaluation, candidates=(first,)), verdicts=[verdict])).text
    for sentence in (*CAVEATS, failure.message, rule.why):
        assert sentence in text


def test_the_table_that_is_named_comes_first_in_every_section(evaluation: Evaluation, verdicts_of: Verdicts) -> None:
    page = render_html(evaluation, verdicts=verdicts_of(evaluation), release="sdv.tvae")
    tabs = [attributes for tag, attributes in Page(page).tags if attributes.get("type") == "radio"]
    groups = {str(tab["name"]) for tab in tabs}
    assert groups >= {"tab-weakest", "tab-guarantee", "tab-attacks", "tab-limits"}
    for group in groups:
        order = [(tab["data-table"], "checked" in tab) for tab in tabs if tab["name"] == group]
        assert order == [("3", True), ("1", False), ("2", False)]


def test_a_number_and_the_ends_of_its_interval_have_as_many_decimals(page: str) -> None:
    number = r"\u2212?\d+\.(\d+)"
    between = r"(?:</\w+>)?(?:<br>|\s|;|\(|<small>|95% interval )*"
    beside = rf"{number}{between}{number} to {number}|{number} \[{number}, {number}\]"
    decimals = [[part for part in groups if part] for groups in re.findall(beside, page)]
    assert len(decimals) > 100
    assert [parts for parts in decimals if len({len(part) for part in parts}) > 1] == []
    assert {len(parts[0]) for parts in decimals} == {3, 4}


def test_epsilon_is_rounded_up_and_the_exact_figure_is_in_its_title(page: str) -> None:
    assert '<b title="0.9987">&epsilon; = 0.999</b>' in page


def test_the_report_is_written_whole_or_not_at_all(evaluation: Evaluation, tmp_path: Path) -> None:
    path = write_html(evaluation, tmp_path / "report.html")
    assert path.read_text(encoding="utf-8") == render_html(evaluation)
    (tmp_path / "folder").mkdir()
    for folder in (path / "none" / "report.html", tmp_path / "folder"):
        with pytest.raises(OutputError):
            write_html(evaluation, folder)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "report.html"]


def test_pages_stay_small_and_one_more_column_costs_less_than_10_kb(
    page: str, make_evaluation: Callable[..., Evaluation], verdicts_of: Verdicts
) -> None:
    """What grows with the square of columns is cut."""
    assert len(page.encode()) < 650_000
    few, many = (widened(make_evaluation, n_columns, 1) for n_columns in (15, 45))
    sizes = [len(render_html(wide, verdicts=verdicts_of(wide)).encode()) for wide in (few, many)]
    assert (sizes[1] - sizes[0]) / 30 < 10_000


@pytest.mark.parametrize(
    "junk", [None, 3, "<b>", [], {}, [3, "x"], {"columns": 5, "classes": "x", "attacks": [{"auc": "1"}], "chosen": 1}]
)
def test_figures_of_attacks_may_hold_anything(junk: object) -> None:
    estimates = tuple(
        Estimate(f"privacy.{name}", 0.12, 2000, "lower", low=0.1, high=0.14, reference=0.0)
        for name in ("inference", "linkability")
    )
    names = ("singling_out", "linkability", "inference", "reconstruction")
    assert render_html(evaluation_of(Candidate("a", estimates, (), dict.fromkeys(names, junk))))
