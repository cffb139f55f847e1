"""A card says what an officer may quote, the public form of it nothing that was measured; in cards and summary names
stay text."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from pydantic import ValidationError

from evaluate.gate.verdict import Verdict
from evaluate.result import Candidate, Estimate, Evaluation, EvaluationError, Failure, GeneratorRecord
from evaluate.text import loss
from reports.exports import to_summary
from reports.guarantee import exact
from reports.model_card.card import CardError, internal_card, public_card
from reports.model_card.render import (
    LICENSES,
    card_content,
    front_matter,
    to_croissant,
    to_markdown,
    to_yaml,
    write_card,
)
from reports.model_card.schema import ModelCard, card_json
from synth.dp.budget import Budget
from synth.dp.statement import LedgerNote
from synth.generators.base import PrivateGenerator
from synth.generators.registry import generator, generator_class, names
from synth.schema import build_schema
from synth.usage_terms import Terms
from tests.evaluations import altered, conclude, facts, origin, swept
from tests.reports.samples import FACTS

HOSTILE = (
    "---\nlicense: mit\n---", "no", "!!python/object/apply:os.system ['true']", "\u202eevil\u2066", "x" * 10_000,
    "[x](javascript:alert(1))", "<script>alert(1)</script><!-- -->", "a | b | c", "`a` ``b`` \\| \\` \\",
    "![i](http://e.vil/p.png)", "https://e.vil www.e.vil me@e.vil @everyone", "# head", "1. one", "***", "{{7*7}}",
    "\x00\x1b[31m\r\n", "0o17", "1:20", "\ud800", "", "\u2028\u0085", "$x$ ~~s~~ __b__", "    code", "|a|\n|-|\n|b|",
)  # fmt: skip
SCHEMA = build_schema({
    "format": 1, "status": "declared", "n_units": 5000, "dataset": "patients", "target": "ill",
    "columns": {
        "age": {"kind": "integer", "bounds": [18, 90]}, "town": {"kind": "categorical", "categories": ["N", "S"]},
        "ill": {"kind": "boolean"},
    },
})  # fmt: skip
CASES = [
    pytest.param(each, epsilon, marks=[pytest.mark.slow] if (each, epsilon) == ("tvae", 1.0) else [])
    for each in names()
    for epsilon in ((None, 1.0) if not each.startswith("sdv.") and generator_class(each).private else (None,))
]  # a private tvae plans its steps for seconds


@cache
def validator() -> Any:
    return jsonschema.Draft202012Validator(card_json())


def read_yaml(text: str) -> Any:
    is_odd = "\\uD8" in text  # half a character, which the fast reader refuses
    return yaml.load(text, Loader=yaml.SafeLoader if is_odd else yaml.CSafeLoader)


def validate(card: ModelCard) -> dict[str, Any]:
    """The card's content, valid and equal to what its YAML says."""
    content = card_content(card)
    validator().validate(content)
    assert read_yaml(to_yaml(content)) == content
    return content


def of_generator(generator_name: str, epsilon: float | None) -> Evaluation:
    """An evaluation of a table that a generator would have made, with its true statement; nothing is fitted."""
    few = {"steps": 8} if epsilon is not None and generator_name in ("ctgan", "tvae") else {}
    chosen = generator(generator_name, **({} if epsilon is None else {"epsilon": epsilon, **few}))
    statement = None
    if isinstance(chosen, PrivateGenerator) and chosen.promises:
        statement = Budget(chosen.schedule(SCHEMA)).statement(SCHEMA)
    record = GeneratorRecord.of(generator_name, chosen.parameters())
    candidate = Candidate(name=generator_name, estimates=(), statement=statement, generator=record)
    known = origin(seed=3, run_id="ab" * 8, split="keyed hash, seed 3")
    return Evaluation((candidate,), facts(train_rows=4321, holdout_rows=679), SCHEMA, known)


@pytest.mark.parametrize(("generator_name", "epsilon"), CASES)
def test_a_card_of_every_generator_is_valid_in_both_forms(generator_name: str, epsilon: float | None) -> None:
    evaluation = of_generator(generator_name, epsilon)
    for card in (internal_card(evaluation, generator_name, FACTS), public_card(evaluation, generator_name, FACTS)):
        content = validate(card)["privacy"]
        written = to_markdown(card)
        if epsilon is None:
            assert content["status"] == "none"
            assert "**no formal guarantee**" in written
            continue
        stated = evaluation.candidates[0].statement
        assert stated is not None
        assert (content["epsilon"], content["delta"], content["n_units"]) == (stated.epsilon, stated.delta, 5000)
        assert content["epsilon_rdp"] >= content["epsilon"]
        assert len(content["spending"]) == len(stated.events)
        assert "formal guarantee" not in written
        steps = next((event for event in stated.events if event.what == "steps of DP-SGD"), None)
        if steps is not None:
            numbers = {"steps": steps.count, "clipping_norm": content["dp_sgd"]["clipping_norm"], **steps.noise}
            assert content["dp_sgd"] == {key: numbers[key] for key in content["dp_sgd"]}
            assert content["dp_sgd"]["clipping_norm"] or generator_name not in ("ctgan", "tvae")


def test_every_key_of_a_card_must_be_there_and_no_other_may(audited: Evaluation) -> None:
    parts = card_json()["$defs"]
    for kind in parts.keys() - {"Estimate", "Expectation", "JsonValue"}:  # which are not of a card alone
        assert set(parts[kind]["required"]) == set(parts[kind]["properties"]), kind
        assert parts[kind]["additionalProperties"] is False, kind
    content = card_content(internal_card(audited, "mst", FACTS))
    assert validator().is_valid(content)
    for damage in ({"privacy": {**content["privacy"], "epsilon": "1"}}, {"more": 1}, {"use": None}):
        assert not validator().is_valid({**content, **damage})


def otherwise_measured(evaluation: Evaluation) -> Evaluation:
    """The same statements, job and schema beside entirely other real rows."""
    candidates = tuple(
        replace(
            c, estimates=(Estimate("privacy.membership.auc", 0.99, 7, "lower"),), figures={}, seconds={"fit": 1234.5},
            failures=(Failure("columns.chi2", "failed", "secret"),), n_rejected_rows=17,
        )
        for c in evaluation.candidates
    )  # fmt: skip
    prints = dict.fromkeys(("table", "train", "holdout"), "hmac-sha256:" + "00" * 32)
    known = altered(
        evaluation.provenance, {"fingerprints": prints, "warnings": ["42 rows"], "files_sha256": {}, "seed": 4}
    )
    real = facts(train_rows=1, holdout_rows=2, columns=3, target="x")
    return replace(evaluation, candidates=candidates, real=real, provenance=known, self_tests=())


@pytest.mark.parametrize("table", ["mst", "sdv.tvae"])
def test_a_public_card_does_not_depend_on_what_was_measured(audited: Evaluation, table: str) -> None:
    other = otherwise_measured(audited)
    first, second = (public_card(evaluation, table, FACTS) for evaluation in (audited, other))
    assert to_yaml(card_content(first)) == to_yaml(card_content(second))
    assert to_markdown(first) == to_markdown(second)
    internal = internal_card(audited, table, FACTS)
    assert to_markdown(internal) != to_markdown(internal_card(other, table, FACTS))
    assert not validator().is_valid({**card_content(first), "measured": card_content(internal)["measured"]})
    assert card_content(first)["made"]["seed"] is None and card_content(internal)["made"]["seed"] == 20260101


def test_a_public_card_tells_nothing_of_an_inferred_schema_or_of_an_audit_on_real_rows(evaluation: Evaluation) -> None:
    schema = altered(evaluation.schema, {"status": "inferred", "n_units": 39074, "dataset": "d"})
    content = card_content(public_card(replace(evaluation, schema=schema), "sdv.tvae", FACTS))
    assert content["trained"]["n"] is content["trained"]["dataset"] is content["table"]["task"] is None
    audit = conclude((0.9987, 1e-6), (430, 440), 960, 0.99, ran_on="the real table")
    first, *others = evaluation.candidates
    audited = replace(evaluation, candidates=(replace(first, audit=audit), *others))
    assert card_content(public_card(audited, "mst", FACTS))["privacy"]["audit"]["outcome"] == "not audited"
    assert card_content(internal_card(audited, "mst", FACTS))["privacy"]["audit"]["bound"] is not None


# ---- Which epsilon leads.


def leads(card: ModelCard) -> tuple[list[tuple[str, int, float]], float, str]:
    """What was drawn together, and the claim that a card leads with, which is the same in every place of it."""
    privacy, written = validate(card)["privacy"], to_markdown(card)
    claim = f"epsilon {loss(privacy['epsilon'])} at delta {loss(privacy['delta'])}, unit"
    assert claim in written.split("## Intended use")[0]
    assert f"| epsilon | {loss(privacy['epsilon'])} (exactly {exact(privacy['epsilon'])}) |" in written
    assert f"at most {loss(math.exp(privacy['epsilon']))} times what it is without" in " ".join(privacy["in_words"])
    rows = [(each["of"], each["releases"], each["epsilon"]) for each in privacy["composition"]]
    return rows, privacy["epsilon"], privacy["claim_of"]


def with_known(evaluation: Evaluation, **known: Any) -> Evaluation:
    return replace(evaluation, provenance=altered(evaluation.provenance, known))


def with_statement(evaluation: Evaluation, **changes: Any) -> Evaluation:
    first, *others = evaluation.candidates
    return replace(evaluation, candidates=(replace(first, statement=altered(first.statement, changes)), *others))


SWEEP = swept({"releasable": True, "composed": {"epsilon": 4.2, "delta": 2e-6, "n_fits": 3}},
              "mst", "sdv.gaussian_copula", "sdv.tvae")  # fmt: skip
TOGETHER = {"epsilon": 1.5, "delta": 1e-6, "private": True, "n_units": 39074}
PUBLISHED = {"table": "mst", "together": TOGETHER, "statement": {"epsilon": 0.3, "n_units": 39074}, "n_fits": 1}
EVERY = {"epsilon": 3.25, "delta": 2e-6, "n_fits": 3}
FIT, RUN = ("fit", 1, 0.9987), ("run", 3, 3.25)


@pytest.mark.parametrize("form", [public_card, internal_card])
@pytest.mark.parametrize(
    ("known", "rows", "epsilon"),
    [
        ({"sweep": None, "release": "mst", "composed": None}, [FIT], 0.9987),
        ({"sweep": SWEEP, "release": "mst"}, [FIT, ("sweep", 3, 4.2)], 4.2),
        ({"released_numbers": PUBLISHED, "release": "mst", "composed": EVERY}, [FIT, ("published", 2, 1.5), RUN], 1.5),
        ({"release": "mst", "composed": EVERY}, [FIT, RUN], 0.9987),
        ({"release": "sdv.tvae", "composed": EVERY}, [FIT, RUN], 3.25),
        ({"release": None, "composed": EVERY}, [FIT, RUN], 3.25),
    ],
    ids=["alone", "a point of a sweep", "with published numbers", "named", "another was named", "none was named"],
)
def test_a_table_is_quoted_at_the_price_of_all_that_leaves_with_it(
    evaluation: Evaluation, form: Callable[..., ModelCard], known: dict[str, Any], rows: list[Any], epsilon: float
) -> None:
    assert leads(form(with_known(evaluation, **known), "mst", FACTS))[:2] == (rows, epsilon)


def test_a_card_says_of_what_its_numbers_are(audited: Evaluation) -> None:
    published = with_known(audited, released_numbers=PUBLISHED, composed=EVERY, release="mst")
    card = internal_card(published, "mst", FACTS)
    assert leads(card)[2] == "the table and the numbers published about it"
    sentences, written = " ".join(card_content(card)["privacy"]["in_words"]), to_markdown(card)
    assert "A test of this table and the numbers published about it that wrongly flags 1%" in sentences
    assert "this fit alone claims 0.999" in sentences
    assert "all 3 private releases that its run drew come to epsilon 3.25" in sentences
    assert "epsilon 1.08 of this fit alone |" in written
    assert "claim of this fit alone 0.9987: no fault found." in written
    (verdict,) = [Verdict("mst", "p", 1, "a", "PASS", (), ())]
    assert "for the table and the numbers published about it; this fit alone 0.999 |" in to_summary(
        published, [verdict]
    )


def test_a_claim_that_does_not_stand_is_said_to_be_so_and_is_not_tagged_as_private(evaluation: Evaluation) -> None:
    first, *others = evaluation.candidates
    against = conclude((0.9987, 1e-6), (4, 4), 960, 0.99, ran_on="a public stand-in")
    unsafe = {**PUBLISHED, "together": {**TOGETHER, "private": False}}
    for status, changed in (
        ("void", with_statement(evaluation, private=False)),
        ("void", with_known(evaluation, released_numbers=unsafe)),
        ("disputed", replace(evaluation, candidates=(replace(first, audit=against), *others))),
        ("unverified", with_known(evaluation, split=None)),
    ):
        for form in (public_card, internal_card):
            card = form(changed, "mst", FACTS)
            content, written = validate(card), to_markdown(card)
            assert content["privacy"]["status"] == status
            assert f"**{status.upper()}" in written
            assert "differential-privacy" not in content["use"]["tags"]
            assert status != "void" or all(words not in written for words in ("wrongly flags", "together |"))
        assert f"**{status.upper()}**" in to_summary(changed, [Verdict("mst", "p", 1, "a", "PASS", (), ())])
    assert "differential-privacy" in card_content(public_card(evaluation, "mst", FACTS))["use"]["tags"]
    both = replace(evaluation, candidates=(first, replace(others[0], statement=first.statement)))
    assert "one of 2 private fits" in " ".join(card_content(public_card(both, "mst", FACTS))["privacy"]["caveats"])


@pytest.mark.parametrize(
    "damage",
    [
        {"released_numbers": {**PUBLISHED, "together": None}}, {"released_numbers": {**PUBLISHED, "n_fits": None}},
        {"sweep": {"releasable": True, "composed": {"epsilon": 4.2}}}, {"sweep": {"releasable": None}},
        {"composed": {**EVERY, "epsilon": -1}}, {"composed": {**EVERY, "n_fits": 0}}, {"attempts": 7},
        {"ledger": {"spent_epsilon": "x"}},
    ],
)  # fmt: skip
def test_a_price_that_cannot_be_read_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        origin(**damage)


def test_what_may_not_be_quoted_has_no_card(evaluation: Evaluation) -> None:
    for changed, table, error, clause in (
        (evaluation, "mts", CardError, r"candidate='mts' is not in the evaluation; .*mst"),
        (with_known(evaluation, sweep={"releasable": False}), "mst", CardError, "of a sweep that nobody pays for"),
        (with_known(evaluation, released_numbers={**PUBLISHED, "table": "x"}), "mst", EvaluationError, "is damaged"),
    ):
        for form in (public_card, internal_card):
            with pytest.raises(error, match=clause):
                form(changed, table, FACTS)


def test_the_ledgers_position_is_that_after_all_that_the_run_drew(evaluation: Evaluation) -> None:
    note = {"dataset": "adult", "unit": "row", "reservation": "5f" * 16, "entry": "e6" * 32, "epsilon": 1.3,
            "spent_epsilon": 2.1, "total_epsilon": 3.0, "total_delta": 1e-6}  # fmt: skip
    booked = {"dataset": "adult", "unit": "row", "spent_epsilon": 2.5, "total_epsilon": 3.0, "total_delta": 1e-6}
    noted = with_statement(evaluation, ledger=note)
    for known, spent, left, moment in (
        ({"ledger": booked}, 2.5, 0.5, "after all that this run drew"),
        ({"ledger": {**booked, "dataset": "another"}}, 2.1, 0.9, "when this release was reserved"),
    ):
        card = public_card(with_known(noted, **known), "mst", FACTS)
        position = validate(card)["privacy"]["ledger"]
        assert (position["note"]["spent_epsilon"], position["left_epsilon"]) == (spent, pytest.approx(left))
        assert position["moment"].startswith(moment)
        assert f"| as it stood | {position['moment']} |" in to_markdown(card)


BY_NAME = {"evaluations": 8, "tables": 9, "by_name": {"evaluations": 3, "tables": 5, "since": "2026-01-31"}}


@pytest.mark.parametrize(("attempts", "n"), [(None, None), (BY_NAME, 3), ({"evaluations": 8}, None)])
def test_a_card_says_how_many_evaluations_there_were_or_that_nobody_knows(
    evaluation: Evaluation, attempts: Any, n: int | None
) -> None:
    counted = with_known(evaluation, attempts=attempts)
    content = card_content(public_card(counted, "mst", FACTS))
    assert content["evaluations"] == n
    assert ("unknown" in content["evaluations_in_words"]) == (n is None)
    assert card_content(internal_card(counted, "mst", FACTS))["evaluations"] == (attempts and 8)


# ---- As files.


def test_the_terms_of_a_job_are_in_its_card_and_its_front_matter(evaluation: Evaluation) -> None:
    terms = Terms.model_validate({
        "intended_use": "Teaching.", "prohibited_use": ["Pricing."], "license": "CC-BY-4.0", "contact": "dpo@x.org",
        "language": ["de", "en"], "tags": ["health"], "pretty_name": "Patienten", "citation": "A paper",
    })  # fmt: skip
    card = public_card(evaluation, "mst", replace(FACTS, terms=terms))
    used = validate(card)["use"]
    assert used["intended"] == ["Teaching."]
    assert used["prohibited"][0] == "Pricing." and len(used["prohibited"]) > 1, "a job adds to what is prohibited"
    written = to_markdown(card)
    matter = read_yaml(re.split(r"^---$", written, flags=re.MULTILINE)[1])
    assert matter == front_matter(card)
    assert (matter["license"], matter["language"], matter["pretty_name"]) == ("cc-by-4.0", ["de", "en"], "Patienten")
    assert {"synthetic", "tabular", "differential-privacy", "health"} == set(matter["tags"])
    assert (matter["size_categories"], matter["task_categories"]) == (["10K<n<100K"], ["tabular-classification"])
    files = [{"split": "train", "path": "mst.csv"}]
    assert matter["configs"] == [{"config_name": "default", "data_files": files}]
    assert matter["license"] in LICENSES
    assert "`dpo@x.org`" in written


@pytest.mark.parametrize(
    ("license_text", "matter"),
    [
        ("MIT", {"license": "mit"}),
        ("Our Own, v2", {"license": "other", "license_name": "our-own-v2"}),
        ("\U0001f600", {"license": "other", "license_name": "unnamed"}),
    ],
)
def test_a_license_that_is_not_on_the_list_goes_by_its_name(
    evaluation: Evaluation, license_text: str, matter: dict[str, str]
) -> None:
    card = public_card(evaluation, "mst", replace(FACTS, terms=Terms(license=license_text)))
    assert {key: value for key, value in front_matter(card).items() if key.startswith("license")} == matter


def test_a_card_is_two_files(evaluation: Evaluation, tmp_path: Path) -> None:
    card = public_card(evaluation, "mst", FACTS)
    paths = write_card(card, tmp_path / "model-card.yaml", tmp_path / "README.md")
    assert {path.name for path in tmp_path.iterdir()} == {"model-card.yaml", "README.md"}
    assert read_yaml(paths[0].read_text(encoding="utf-8")) == card_content(card)


CROISSANT_KEYS = {
    "@context", "@type", "conformsTo", "creator", "datePublished", "description", "distribution", "license", "name",
    "recordSet", "url",
}  # fmt: skip
"""What the Croissant format 1.0 requires of a data set."""


def test_croissant_metadata_has_what_the_format_requires_and_nothing_that_was_measured(audited: Evaluation) -> None:
    table = pd.DataFrame({"age": [1, 2], "weight": [0.5, None], "ill": [True, False], "town": ["N", "S"]})
    for files, source in (({"mst.csv": "ab" * 32}, "fileObject"), ({"m/1.csv": "a", "m/2.csv": "b"}, "fileSet")):
        text = to_croissant(public_card(audited, "mst", FACTS), files, table)
        content = json.loads(text)
        assert set(content) >= CROISSANT_KEYS and content["conformsTo"][0] == "http://mlcommons.org/croissant/1.0"
        objects = {each["@id"]: each["sha256"] for each in content["distribution"] if each["@type"] == "cr:FileObject"}
        assert objects == files
        known = {each["@id"] for each in content["distribution"]}
        fields = content["recordSet"][0]["field"]
        assert all(field["source"][source]["@id"] in known for field in fields)
        types = {field["source"]["extract"]["column"]: field["dataType"] for field in fields}
        assert types == {"age": "sc:Integer", "weight": "sc:Float", "ill": "sc:Boolean", "town": "sc:Text"}
        assert "epsilon 0.999 at delta 1e\u22126, unit row" in content["description"]
        assert text == to_croissant(public_card(otherwise_measured(audited), "mst", FACTS), files, table)
    assert "no formal guarantee" in to_croissant(public_card(audited, "sdv.tvae", FACTS), {"t.csv": "a"}, table)


# ---- Hostile names, in cards and in the summary.


def renamed(evaluation: Evaluation, hostile: str) -> tuple[Evaluation, Any]:
    """The same with a hostile text in every place where somebody writes one."""
    first, *others = evaluation.candidates
    assert first.statement is not None
    stated = replace(
        first.statement, events=(replace(first.statement.events[0], what=hostile),), unit=hostile,
        accountant=hostile, caveats=(hostile,),
        ledger=LedgerNote(hostile, hostile, hostile, hostile, 1.0, 1.0, 1.0, 1.0),
    )  # fmt: skip
    record = GeneratorRecord(hostile, {hostile: hostile, "list": [hostile, None]})
    failures = (Failure(hostile, "failed", hostile),)
    candidate = replace(first, name=hostile, statement=stated, generator=record, failures=failures)
    schema = evaluation.schema.model_copy(update={"dataset": hostile})
    known = replace(
        evaluation.provenance, job=hostile, run_id=hostile, versions={hostile: hostile}, warnings=(hostile,)
    )
    terms = Terms.model_construct(
        intended_use=(hostile,), prohibited_use=(hostile,), license=hostile, contact=hostile, language=("en",),
        tags=(hostile,), pretty_name=None, citation=hostile,
    )  # fmt: skip
    facts = replace(FACTS, file=hostile, terms=terms)
    return replace(evaluation, candidates=(candidate, *others), schema=schema, provenance=known), facts


def check_text(markdown: str, *, is_card: bool) -> None:
    """Rendered with raw HTML allowed, there is no tag of anybody else's, no link and no mention."""
    body = markdown.split("\n---\n", 1)[1] if is_card else markdown
    tokens = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(body)
    inside = [child for token in tokens for child in token.children or []]
    kinds = {token.type for token in (*tokens, *inside)}
    assert not kinds & {"image", "s_open", "hr", "em_open", "code_block", "fence"}
    tags = [token.content.strip() for token in (*tokens, *inside) if token.type in ("html_block", "html_inline")]
    links = [token.attrs["href"] for token in inside if token.type == "link_open"]
    if is_card:
        assert (tags, links) == ([], [])
        rows = [[t.type for t in tokens[i : next(k for k in range(i, len(tokens)) if tokens[k].type == "tr_close")]]
                for i, t in enumerate(tokens) if t.type == "tr_open"]  # fmt: skip
        assert {sum(kind in ("td_open", "th_open") for kind in row) for row in rows} <= {2, 4, 5, 6}
        assert sum(token.type == "heading_open" for token in tokens) in (12, 15, 16)
    else:
        assert links == ["../r.html"]
        own = ("<details>", "<details open>", "</details>", "<summary>")
        assert all(re.sub(r"Rules: [\w, ]*</summary>", "", tag).split("\n")[0] in own for tag in tags)
        assert sum(token.type == "heading_open" for token in tokens) in (3, 4)
        assert sum(token.type == "table_open" for token in tokens) == 4
    assert not re.search(r"(?i)(https?:|www\.|@[a-z])", "".join(c.content for c in inside if c.type == "text"))
    markdown.encode("utf-8")


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_name_stays_text(evaluation: Evaluation, verdicts_of: Callable[..., Any], hostile: str) -> None:
    damaged, facts = renamed(evaluation, hostile)
    (verdict, *rest) = verdicts_of(damaged)
    short = Verdict(verdict.candidate, hostile, 1, hostile, verdict.verdict, verdict.findings)
    card = internal_card(damaged, hostile, facts, [short])
    assert validate(card)["name"] == hostile
    written = to_markdown(card)
    check_text(written, is_card=True)
    assert read_yaml(written.removeprefix("---\n").split("\n---\n", 1)[0]) == front_matter(card)
    check_text(to_markdown(public_card(damaged, hostile, facts)), is_card=True)
    subject = [f.rule.model_copy(update={"subject": (hostile,)}) for f in verdict.findings]
    odd = tuple(replace(f, reason=hostile, rule=rule) for f, rule in zip(verdict.findings, subject, strict=True))
    verdicts = (replace(verdict, policy=hostile, audience=hostile, findings=odd), *rest)
    first, *others = evaluation.candidates
    named = replace(evaluation, candidates=(replace(first, name=hostile), *others))
    check_text(to_summary(named, verdicts, title=hostile, release=hostile, report="../r.html"), is_card=False)


@settings(max_examples=30)
@given(st.dictionaries(st.text(max_size=20), st.text() | st.lists(st.text()) | st.floats(allow_nan=False) | st.none()))
def test_yaml_reads_back_whatever_was_written(content: dict[str, Any]) -> None:
    written = to_yaml({"content": content})
    assert read_yaml(written) == {"content": content}
    assert not re.search(r"^(---|\.\.\.)", written, flags=re.MULTILINE)
    assert "!!" not in re.sub(r'"(?:[^"\\]|\\.)*"', "", written)


@settings(max_examples=30)
@given(st.text(alphabet=st.sampled_from("[]()<>!|`\\*_#-+=~$&;:@/.w123 \n\tabhtps\u202e\"'{}"), max_size=60))
def test_any_mixture_of_markup_stays_text(evaluation: Evaluation, hostile: str) -> None:
    damaged, facts = renamed(evaluation, hostile)
    check_text(to_markdown(internal_card(damaged, hostile, facts)), is_card=True)
