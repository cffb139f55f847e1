"""The page as text: whole, deterministic, and harmless whatever the names in it are."""

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
from evaluate.result import Candidate, Evaluation, Failure, GeneratorRecord
from evaluate.result_io import evaluation_from
from reports import render_html, write_html
from reports.exports.summary import to_summary
from synth.dp.budget import CAVEATS
from synth.dp.statement import EventRecord, LedgerNote, PrivacyStatement
from synth.errors import OutputError
from tests.evaluations import altered, evaluation_of, origin
from tests.reports.test_ranking import ranking
from tests.reports.test_sweep import swept

Verdicts = Callable[..., tuple[Verdict, ...]]
SECTIONS = (
    "verdict", "weakest", "policy", "guarantee", "comparison", "looks", "columns", "pairs", "utility", "attacks",
    "limits", "provenance", "signoff", "criteria", "glossary",
)  # fmt: skip
HOSTILE = {
    "age": "</script><script>alert(1)</script>", "workclass": "{{7*7}}", "fnlwgt": "long" * 2500,
    "education": "\u0627\u0644\u0639\u0645\u0631", "sex": "\U0001f469\u200d\U0001f680 sex",
    "race": "a\u202eb", "income": "\"'><img src=x onerror=alert(2)>&amp;",
}  # fmt: skip


class Page(HTMLParser):
    """Tags, ids, headings and the text outside of style and of the page's own script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self._inside = ""
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


def places(page: str) -> list[str]:
    """Sections in their order: a heading on the page, or what is inside a fold."""
    return [str(a["id"]) for tag, a in Page(page).tags if (tag == "h2" and "id" in a) or a.get("class") == "inside"]


def own_script() -> str:
    return (files("reports") / "templates" / "report.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(audited: Evaluation, verdicts_of: Verdicts) -> str:
    return render_html(audited, verdicts=verdicts_of(audited), title="A census", release="mst")


def test_the_same_evaluation_gives_the_same_page(page: str, audited: Evaluation, verdicts_of: Verdicts) -> None:
    again = evaluation_from(audited.to_json())
    assert render_html(again, verdicts=verdicts_of(again), title="A census", release="mst") == page


def test_every_section_is_there_in_the_officers_order(page: str) -> None:
    assert places(page) == list(SECTIONS)


def test_a_ranking_comes_right_after_the_verdict_and_a_sweep_before_the_weak_spots(audited: Evaluation) -> None:
    ranked = render_html(replace(audited, ranking=ranking()))
    assert places(ranked) == [SECTIONS[0], "ranking", *SECTIONS[1:]]
    assert render_html(swept()).index('id="sweep"') < render_html(swept()).index('id="verdict"')


def test_every_section_says_that_it_reads_real_data(page: str) -> None:
    text = Page(page).text
    assert text.count("outside the guarantee") == len(SECTIONS) - 2  # the first two are under the page's own notice
    assert "This report reads real data and is outside the privacy guarantee." in text


def test_the_page_stays_small_and_names_nothing_outside_itself(page: str) -> None:
    assert len(page.encode()) < 650_000
    tags = Page(page).tags
    assert not {tag for tag, _ in tags} & {"img", "link", "iframe", "object", "base", "form"}
    targets = [value for _, attributes in tags for name, value in attributes.items() if name in ("href", "src")]
    assert all(target is not None and target.startswith("#") for target in targets)
    assert not any(name.startswith("on") or name == "style" for _, attributes in tags for name in attributes)


def test_the_policy_of_the_page_allows_its_own_style_and_script_and_nothing_else(page: str) -> None:
    content = next(a["content"] for tag, a in Page(page).tags if a.get("http-equiv") == "Content-Security-Policy")
    found = {}
    for tag in ("style", "script"):
        (inside,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        found[tag] = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
    allowed = "; ".join(f"{tag}-src 'sha256-{digest}'" for tag, digest in found.items())
    assert content == f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def test_the_script_of_the_page_holds_no_data_and_makes_no_markup(page: str) -> None:
    (script,) = Page(page).scripts
    assert script == own_script()
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "eval", "Function(", "fetch", "Storage", "cookie"):
        assert word not in script


def test_every_link_of_the_page_leads_to_a_place_in_it(page: str) -> None:
    tags = Page(page).tags
    ids = {attributes.get("id") for _, attributes in tags}
    links = {attributes["href"] for tag, attributes in tags if tag in ("a", "use")}
    assert {link[1:] for link in links if link is not None} <= ids


def test_pictures_have_names_headings_have_an_order_and_header_cells_a_scope(page: str) -> None:
    tags = Page(page).tags
    for tag, attributes in tags:
        if tag == "svg":
            assert attributes.get("aria-hidden") == "true" or (attributes["role"] == "img" and attributes["aria-label"])
        if tag == "th":
            assert attributes.get("scope") in ("col", "colgroup", "row")
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
    assert "{{7*7}}" in parsed.text
    assert "</script><script>alert(1" in parsed.text
    assert "<bdi>49</bdi>" not in page
    assert "\u0627\u0644\u0639\u0645\u0631" in parsed.text
    assert "\u202e" not in page
    assert "\x00" not in page
    assert "long" * 60 not in page
    page.encode()


NOISE = {"sigma": 9.0, "sensitivity": 1}


def test_hostile_texts_outside_the_columns_are_text(evaluation: Evaluation) -> None:
    bad = "<script>alert(3)</script>"
    failure = Failure("columns.ks", "failed", bad, (bad,))
    first = evaluation.candidates[1]
    stated = PrivacyStatement(
        1.0, 1e-6, bad, 39074, bad, 1.1, (EventRecord(bad, "Gaussian", NOISE, 1, 0.1),), versions={bad: bad},
        ledger=LedgerNote(bad, bad, bad, bad, 1.0, 1.0, 2.0, 1e-6), caveats=(bad,), private=False,
    )  # fmt: skip
    made = GeneratorRecord(bad, {bad: bad})
    vendor = Candidate(bad, first.estimates, (failure,), first.figures, stated, made, {bad: 1.0})
    known = origin(job=bad, run_id=bad, split=bad, warnings=[bad], versions={bad: bad}, files_sha256={bad: bad})
    page = render_html(Evaluation((vendor,), evaluation.real, evaluation.schema, known))
    assert Page(page).scripts == [own_script()]
    assert bad in Page(page).text


def test_a_candidate_of_which_nothing_was_measured_still_has_a_report(evaluation: Evaluation) -> None:
    bare = Candidate("bare", (), (Failure("columns.tvd.excess", "timed out", "the time limit was reached"),))
    text = Page(render_html(evaluation_of(bare))).text
    assert "timed out" in text
    assert "the time limit was reached" in text
    assert "No policy was applied" in text
    assert render_html(evaluation_of())


def test_a_holdout_of_another_population_is_said_on_the_first_screen_with_its_columns(evaluation: Evaluation) -> None:
    columns = [{"column": "a<b>\u202e", "statistic": "V", "value": 0.25, "p_value": 1e-9}]
    told = {"n_train": 900, "n_holdout": 900, "auc": 0.7, "low": 0.6, "high": 0.8, "p_value": 1e-9, "columns": columns}
    other = replace(evaluation, real=altered(evaluation.real, {"shift": told}))
    rule = Rule(measure="privacy.membership.auc", limit=0.9, why="w")
    policy = Policy(name="p", version=1, audience="a", rules=(rule,))
    page = render_html(other, verdicts=[judge_candidate(one, policy, real=other.real) for one in other.candidates])
    screen = page.split('id="verdict"')[1].split('id="policy"')[0]
    assert "Train and holdout are not samples of one population" in screen
    assert "AUC of 0.700" in screen
    assert "a&lt;b&gt;" in screen
    assert "\u202e" not in page
    assert "Train and holdout are not samples of one population" in to_summary(other, [])
    assert "not samples of one population" not in render_html(evaluation)


def test_the_limits_say_once_how_large_a_difference_of_populations_may_go_unseen(evaluation: Evaluation) -> None:
    few = {"n_train": 300, "n_holdout": 300, "detectable": 0.64}
    page = render_html(replace(evaluation, real=altered(evaluation.real, {"shift": few})))
    assert page.count("one with an AUC below 0.64 may go unseen") == 1
    assert page.index("may go unseen") > page.index('id="limits"')
    assert "may go unseen" not in render_html(evaluation)


def test_a_table_named_for_release_that_was_not_evaluated_is_said_so(evaluation: Evaluation) -> None:
    text = Page(render_html(evaluation, release="aim")).text
    assert "was not evaluated" in text


def test_a_single_table_has_its_columns_as_tiles_and_its_long_tail_folded(evaluation: Evaluation) -> None:
    alone = Evaluation(evaluation.candidates[:1], evaluation.real, evaluation.schema, evaluation.provenance)
    page = render_html(alone)
    _, shown, folded, numbers, *_ = page.split('id="columns"')[1].split('id="pairs"')[0].split("<details")
    assert shown.count('<article class="column"') == 12
    assert folded.count('<article class="column"') == 3
    assert "3 more columns" in folded
    assert "Every column in a list" in numbers
    assert page.count("<tr data-column") == 2 * 15  # in the list and in the schema
    assert "Fresh real sample" in page.split('id="comparison"')[1].split('id="columns"')[0]


def test_epsilon_is_rounded_up_and_the_exact_figure_is_in_its_title(page: str) -> None:
    assert '<b title="0.9987">&epsilon; = 0.999</b>' in page
    assert "one in 1,000,000" in page


def test_names_of_files_stay_as_they_are_in_the_provenance(evaluation: Evaluation) -> None:
    files = {"synthetic/gaussian_copula.csv": "ab" * 32}
    text = Page(render_html(evaluation_of(job="A <b>census", files_sha256=files))).text
    assert "SHA-256 of synthetic/gaussian_copula.csv" in text
    assert "real table: train rows" in text
    assert text.count("A <b>census") == 2


def test_the_table_that_is_named_comes_first_and_is_shown_in_every_section(
    evaluation: Evaluation, verdicts_of: Verdicts
) -> None:
    page = render_html(evaluation, verdicts=verdicts_of(evaluation), release="sdv.tvae")
    tabs = [attributes for tag, attributes in Page(page).tags if attributes.get("type") == "radio"]
    groups = {str(tab["name"]) for tab in tabs}
    assert groups >= {"tab-weakest", "tab-guarantee", "tab-attacks", "tab-limits"}
    for group in groups:
        of = [(tab["data-table"], "checked" in tab) for tab in tabs if tab["name"] == group]
        assert of == [("3", True), ("1", False), ("2", False)]
    alone = render_html(replace(evaluation, candidates=evaluation.candidates[1:2]))
    assert not [tag for tag, attributes in Page(alone).tags if attributes.get("type") == "radio"]


def test_a_number_and_the_ends_of_its_interval_have_as_many_decimals(
    audited: Evaluation, verdicts_of: Verdicts
) -> None:
    page = render_html(audited, verdicts=verdicts_of(audited), release="mst")
    one = r"\u2212?\d+\.(\d+)"
    beside = rf"{one}(?:</\w+>)?(?:<br>|\s|;|\(|<small>|95% interval )*{one} to {one}|{one} \[{one}, {one}\]"
    found = [[part for part in groups if part] for groups in re.findall(beside, page)]
    assert len(found) > 100
    assert [parts for parts in found if len({len(part) for part in parts}) > 1] == []
    assert {len(parts[0]) for parts in found} == {3, 4}


def test_the_report_is_written_whole_or_not_at_all(evaluation: Evaluation, tmp_path: Path) -> None:
    path = write_html(evaluation, tmp_path / "report.html")
    assert path.read_text(encoding="utf-8") == render_html(evaluation)
    with pytest.raises(OutputError, match=r"report\.html' is a file"):
        write_html(evaluation, path / "none" / "report.html")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError):
        write_html(evaluation, tmp_path / "folder")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "report.html"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_colors_have_the_contrast_of_wcag_aa(page: str, scheme: str) -> None:
    blocks = re.findall(r":root \{(.*?)\}", page, re.DOTALL)
    colors = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[0] if scheme == "light" else blocks[1]))
    for name in ("ink", "soft", "accent", "pass", "fail", "open"):
        assert _contrast(colors[name], colors["paper"]) >= 4.5
    for name in ("pass", "fail", "open"):
        assert _contrast(colors[name], colors[f"{name}-wash"]) >= 4.5


def _contrast(one: str, other: str) -> float:
    low, high = sorted(_luminance(color) for color in (one, other))
    return (high + 0.05) / (low + 0.05)


def _luminance(color: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_caveats_reasons_and_failures_are_whole_sentences(audited: Evaluation) -> None:
    first, *others = audited.candidates
    assert first.statement is not None
    assert max(len(caveat) for caveat in CAVEATS) > 200
    failure = Failure("columns.chi2", "failed", f"{'for a reason, ' * 20}it ended; do it again")
    first = replace(first, statement=altered(first.statement, {"caveats": CAVEATS}), failures=(failure,))
    rule = Rule(measure="validity.rows", limit=0.9, why=f"{'because, ' * 30}in the end")
    policy = Policy(name="test", version=1, audience="nobody", rules=(rule,))
    page = Page(
        render_html(replace(audited, candidates=(first, *others)), verdicts=[judge_candidate(first, policy)])
    ).text
    for sentence in (*CAVEATS, failure.message, rule.why):
        assert sentence in page
