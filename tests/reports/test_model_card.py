"""A model card says what an officer may quote, the public form of it nothing that was measured, and names stay text."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date
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

import reports.model_card as package
from evaluate.gate.verdict import Verdict
from evaluate.result import Candidate, Estimate, Evaluation, EvaluationError, Failure, GeneratorRecord
from evaluate.text import loss
from reports.model_card.card import CardError, CardFacts, internal_card, public_card
from reports.model_card.croissant import to_croissant
from reports.model_card.render import LICENSES, card_content, front_matter, to_markdown, to_yaml, write_card
from reports.model_card.schema import ModelCard, card_json
from reports.sections.privacy_budget import exact
from synth.dp.budget import Budget
from synth.dp.statement import LedgerNote
from synth.generators.base import PrivateGenerator
from synth.generators.registry import generator, generator_class, names
from synth.schema import build_schema
from synth.usage_terms import Terms
from tests.evaluations import altered, conclude, facts, origin, swept

FACTS = CardFacts(date(2026, 1, 2), file="mst.csv", n_rows=39074, n_columns=15, holdout_share=0.2)
HOSTILE = (
    "---\nlicense: mit\n---", "no", "!!python/object/apply:os.system ['true']", "a: b\n- c", "\u202eevil\u2066",
    "\U0001f600", "x" * 10_000, "[x](javascript:alert(1))", "<script>alert(1)</script>", "a | b | c", "`a` ``b``",
    "\\| \\` \\", "![i](http://e.vil/p.png)", "<https://e.vil>", "https://e.vil www.e.vil", "me@e.vil @everyone",
    "&lt;b&gt; &#60;b&#62;", "# head", "1. one", "- item", "***", "{{7*7}}", "\x00\x1b[31m\r\n", "1e3", "0o17", "~",
    "null", "2026-01-02", "1:20", "y", "*alias", "&anchor", "? key", "% directive", "@at", "\ud800", "", " ",
    "\u2028\u0085", "<!-- -->", "<details>", "$x$ ~~s~~ __b__", "===", "    indented", "> quote", "|", "|a|\n|-|\n|b|",
)  # fmt: skip
SCHEMA = build_schema({
    "format": 1, "status": "declared", "n_units": 5000, "dataset": "patients", "target": "ill",
    "columns": {
        "age": {"kind": "integer", "bounds": [18, 90]}, "town": {"kind": "categorical", "categories": ["N", "S"]},
        "ill": {"kind": "boolean"},
    },
})  # fmt: skip
OURS = [name for name in names() if not name.startswith("sdv.")]
CASES = [
    pytest.param(name, epsilon, marks=[pytest.mark.slow] if (name, epsilon) == ("tvae", 1.0) else [])
    for name in OURS
    for epsilon in ((None, 1.0) if generator_class(name).private else (None,))
]


@cache
def validator() -> Any:
    return jsonschema.Draft202012Validator(card_json())


def validate(card: ModelCard) -> dict[str, Any]:
    """The card's content, valid and equal to what its YAML says."""
    content = card_content(card)
    validator().validate(content)
    assert yaml.safe_load(to_yaml(content)) == content
    return content


@cache
def of_generator(name: str, epsilon: float | None) -> Evaluation:
    """An evaluation of a table that a generator would have made, with its true statement; nothing is fitted."""
    few = {"steps": 8} if epsilon is not None and name in ("ctgan", "tvae") else {}
    chosen = generator(name, **({} if epsilon is None else {"epsilon": epsilon, **few}))
    statement = None
    if isinstance(chosen, PrivateGenerator) and chosen.promises:
        statement = Budget(chosen.schedule(SCHEMA)).statement(SCHEMA)
    made = GeneratorRecord.of(name, chosen.parameters())
    candidate = Candidate(name=name, estimates=(), statement=statement, generator=made)
    known = origin(seed=3, run_id="ab" * 8, split="keyed hash, seed 3")
    return Evaluation((candidate,), facts(train_rows=4321, holdout_rows=679), SCHEMA, known)


@pytest.mark.parametrize(("name", "epsilon"), CASES)
def test_a_card_of_every_generator_is_valid_in_both_forms(name: str, epsilon: float | None) -> None:
    evaluation = of_generator(name, epsilon)
    for card in (internal_card(evaluation, name, FACTS), public_card(evaluation, name, FACTS)):
        content = validate(card)
        written = to_markdown(card)
        if epsilon is None:
            assert content["privacy"]["status"] == "none"
            assert "**no formal guarantee**" in written
            assert "**No formal guarantee.**" in written
        else:
            stated = evaluation.candidates[0].statement
            assert stated is not None
            said = content["privacy"]
            assert (said["epsilon"], said["delta"], said["n_units"]) == (stated.epsilon, stated.delta, 5000)
            assert said["epsilon_rdp"] >= said["epsilon"]
            assert len(said["spending"]) == len(stated.events)
            assert "formal guarantee" not in written


def test_a_generator_of_another_library_promises_nothing() -> None:
    card = validate(public_card(of_generator("sdv.gaussian_copula", None), "sdv.gaussian_copula", FACTS))
    assert card["privacy"]["status"] == "none"


@pytest.mark.parametrize("name", ["ctgan", pytest.param("tvae", marks=pytest.mark.slow)])
def test_training_by_dp_sgd_is_quoted_with_its_four_numbers(name: str) -> None:
    evaluation = of_generator(name, 1.0)
    card = public_card(evaluation, name, FACTS)
    said = card_content(card)["privacy"]["dp_sgd"]
    event = next(e for e in evaluation.candidates[0].statement.events if e.what == "steps of DP-SGD")  # type: ignore[index]
    assert said == {
        "noise_multiplier": event.noise["noise_multiplier"], "sampling_rate": event.noise["sampling_rate"],
        "steps": event.count, "clipping_norm": 1.0,
    }  # fmt: skip
    written = to_markdown(card)
    assert all(f"| {what} |" in written for what in ("clipping norm", "noise multiplier", "sampling rate", "steps"))


def test_the_shipped_schema_is_that_of_the_cards() -> None:
    shipped = Path(package.__file__).with_name("model-card.schema.json").read_text(encoding="utf-8")
    assert shipped == json.dumps(card_json(), indent=1) + "\n", "write card_json() to model-card.schema.json"
    jsonschema.Draft202012Validator.check_schema(json.loads(shipped))


def keys(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if not isinstance(content, dict):
        return []
    return [found for key, value in content.items() for found in [(*path, key), *keys(value, (*path, key))]]


def test_a_card_that_lacks_any_one_key_is_rejected(audited: Evaluation) -> None:
    content = card_content(internal_card(audited, "mst", FACTS))
    assert validator().is_valid(content)
    free = {("made", "parameters"), ("made", "versions")}
    for path in keys(content):
        if path[:-1] in free:
            continue
        damaged = json.loads(json.dumps(content))
        inner = damaged
        for key in path[:-1]:
            inner = inner[key]
        del inner[path[-1]]
        assert not validator().is_valid(damaged), path
        inner[path[-1]] = [content]
        assert not validator().is_valid(damaged) or path in free, path


def test_a_public_card_has_no_place_for_what_was_measured(audited: Evaluation) -> None:
    measured = card_content(internal_card(audited, "mst", FACTS))["measured"]
    content = card_content(public_card(audited, "mst", FACTS))
    assert not validator().is_valid({**content, "measured": measured})


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


@pytest.mark.parametrize("name", ["mst", "sdv.tvae"])
def test_a_public_card_does_not_depend_on_what_was_measured(audited: Evaluation, name: str) -> None:
    other = otherwise_measured(audited)
    one, two = (public_card(evaluation, name, FACTS) for evaluation in (audited, other))
    assert to_yaml(card_content(one)) == to_yaml(card_content(two))
    assert to_markdown(one) == to_markdown(two)
    assert to_markdown(internal_card(audited, name, FACTS)) != to_markdown(internal_card(other, name, FACTS))


def test_a_public_card_tells_nothing_of_an_inferred_schema(evaluation: Evaluation) -> None:
    inferred = replace(
        evaluation, schema=altered(evaluation.schema, {"status": "inferred", "n_units": 39074, "dataset": "d"})
    )
    content = card_content(public_card(inferred, "sdv.tvae", FACTS))
    assert content["trained"]["n"] is content["trained"]["dataset"] is content["table"]["task"] is None


def test_an_audit_on_real_rows_is_not_in_a_public_card(evaluation: Evaluation) -> None:
    found = conclude((0.9987, 1e-6), (430, 440), 960, 0.99, ran_on="the real table")
    first, *others = evaluation.candidates
    audited = replace(evaluation, candidates=(replace(first, audit=found), *others))
    assert card_content(public_card(audited, "mst", FACTS))["privacy"]["audit"]["outcome"] == "not audited"
    assert card_content(internal_card(audited, "mst", FACTS))["privacy"]["audit"]["bound"] is not None


def test_rows_are_rounded_without_a_guarantee_and_declared_with_one(evaluation: Evaluation) -> None:
    plain = card_content(internal_card(evaluation, "sdv.tvae", FACTS))["trained"]
    assert (plain["n"], plain["counted_in"]) == (39000, "training rows, rounded to two digits")
    private = card_content(internal_card(evaluation, "mst", FACTS))["trained"]
    assert (private["n"], private["counted_in"]) == (39074, "declared units, those held out included")


def with_statement(evaluation: Evaluation, **changes: Any) -> Evaluation:
    first, *others = evaluation.candidates
    assert first.statement is not None
    return replace(evaluation, candidates=(replace(first, statement=altered(first.statement, changes)), *others))


def test_a_void_statement_is_said_to_be_void(evaluation: Evaluation) -> None:
    card = public_card(with_statement(evaluation, private=False), "mst", FACTS)
    assert validate(card)["privacy"]["status"] == "void"
    assert "**VOID: this statement must not be relied on.**" in to_markdown(card)
    assert "differential-privacy" not in front_matter(card)["tags"]
    assert all(said not in to_markdown(card) for said in ("wrongly flags", "found at most", "together |"))


def test_a_claim_that_its_audit_disproves_is_said_to_be_disputed(evaluation: Evaluation) -> None:
    found = conclude((0.9987, 1e-6), (4, 4), 960, 0.99, ran_on="a public stand-in")
    assert found.bound > 0.9987
    first, *others = evaluation.candidates
    disputed = replace(evaluation, candidates=(replace(first, audit=found), *others))
    card = public_card(disputed, "mst", FACTS)
    content = validate(card)["privacy"]
    assert content["status"] == "disputed"
    assert content["audit"]["bound"] <= found.bound
    assert "**DISPUTED: an audit disproves this statement, or that of a fit that counts with it.**" in to_markdown(card)


def rows(card: ModelCard) -> list[tuple[str, int, float]]:
    """What a card says was drawn together."""
    return [(one["of"], one["releases"], one["epsilon"]) for one in validate(card)["privacy"]["composition"]]


def leads(card: ModelCard) -> tuple[float, float, str]:
    """The claim that a card leads with, which is the same in every place of it."""
    said, written = validate(card)["privacy"], to_markdown(card)
    assert (
        f"epsilon {loss(said['epsilon'])} at delta {loss(said['delta'])}, unit" in written.split("## Intended use")[0]
    )
    assert f"| epsilon | {loss(said['epsilon'])} (exactly {exact(said['epsilon'])}) |" in written
    assert f"at most {loss(math.exp(said['epsilon']))} times what it is without" in " ".join(said["in_words"])
    return said["epsilon"], said["delta"], said["claim_of"]


def with_known(evaluation: Evaluation, **known: Any) -> Evaluation:
    return replace(evaluation, provenance=altered(evaluation.provenance, known))


SWEEP = {"releasable": True, "composed": {"epsilon": 4.2, "delta": 2e-6, "n_fits": 3}}
BOTH = {"epsilon": 1.5, "delta": 1e-6, "private": True, "n_units": 39074}
PUBLISHED = {"table": "mst", "together": BOTH, "statement": {"epsilon": 0.3, "n_units": 39074}, "n_fits": 1}
EVERY = {"epsilon": 3.25, "delta": 2e-6, "n_fits": 3}


def test_a_point_of_a_sweep_is_quoted_at_the_price_of_the_whole(evaluation: Evaluation) -> None:
    card = public_card(
        with_known(evaluation, sweep=swept(SWEEP, *(one.name for one in evaluation.candidates)), release="mst"),
        "mst",
        FACTS,
    )
    assert leads(card)[:2] == (4.2, 2e-6)
    assert rows(card) == [("fit", 1, 0.9987), ("sweep", 3, 4.2)]


@pytest.mark.parametrize("form", [public_card, internal_card])
def test_a_table_is_quoted_at_the_price_of_all_that_leaves_with_it(
    evaluation: Evaluation, form: Callable[..., ModelCard]
) -> None:
    found = with_known(evaluation, sweep=None, released_numbers=PUBLISHED, release="mst", composed=EVERY)
    card = form(found, "mst", FACTS)
    assert leads(card) == (1.5, 1e-6, "the table and the numbers published about it")
    assert rows(card) == [("fit", 1, 0.9987), ("published", 2, 1.5), ("run", 3, 3.25)]
    said = " ".join(card_content(card)["privacy"]["in_words"])
    assert "A test of this table and the numbers published about it that wrongly flags 1%" in said
    assert "this fit alone claims 0.999" in said
    assert "all 3 private releases that its run drew come to epsilon 3.25" in said
    written = to_markdown(card)
    assert "| all 3 private releases that its run drew | 3 | 3.25 | 2e\u22126 |" in written
    assert "epsilon 1.08 of this fit alone |" in written


def test_a_table_that_stands_alone_is_quoted_at_its_own_price(evaluation: Evaluation) -> None:
    card = public_card(with_known(evaluation, sweep=None, release="mst", composed=None), "mst", FACTS)
    assert leads(card)[::2] == (0.9987, "this fit alone")
    assert rows(card) == [("fit", 1, 0.9987)]
    assert "What was drawn together" not in to_markdown(card)


def test_an_audit_is_of_the_fit_alone(audited: Evaluation) -> None:
    card = internal_card(with_known(audited, released_numbers=PUBLISHED), "mst", FACTS)
    assert card_content(card)["privacy"]["audit"]["outcome"] == "no fault found"
    assert "claim of this fit alone 0.9987: no fault found." in to_markdown(card)


def test_published_numbers_without_secure_noise_void_the_card(evaluation: Evaluation) -> None:
    published = {**PUBLISHED, "together": {**BOTH, "private": False}}
    card = public_card(with_known(evaluation, released_numbers=published), "mst", FACTS)
    assert validate(card)["privacy"]["status"] == "void"


@pytest.mark.parametrize(
    "damage",
    [
        {"released_numbers": {**PUBLISHED, "together": None}},
        {"released_numbers": {**PUBLISHED, "n_fits": None}},
        {"sweep": {"releasable": True, "composed": {"epsilon": 4.2}}},
        {"composed": []},
        {"composed": {**EVERY, "epsilon": -1}},
        {"composed": {**EVERY, "n_fits": 0}},
        {"attempts": 7},
        {"ledger": {"spent_epsilon": "x"}},
        {"sweep": "damaged"},
        {"sweep": {"releasable": None}},
    ],
)
def test_a_price_that_cannot_be_read_is_refused_when_it_is_read(damage: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        origin(**damage)


def test_a_price_of_another_table_makes_no_card(evaluation: Evaluation) -> None:
    with pytest.raises(EvaluationError, match="the evaluation is damaged"):
        public_card(with_known(evaluation, released_numbers={**PUBLISHED, "table": "another"}), "mst", FACTS)


NOTE = {
    "dataset": "adult", "unit": "row", "reservation": "5f" * 16, "entry": "e6" * 32, "epsilon": 1.3,
    "spent_epsilon": 2.1, "total_epsilon": 3.0, "total_delta": 1e-6,
}  # fmt: skip


def test_the_ledgers_position_is_that_after_all_that_the_run_drew(evaluation: Evaluation) -> None:
    booked = {"dataset": "adult", "unit": "row", "spent_epsilon": 2.5, "total_epsilon": 3.0, "total_delta": 1e-6}
    noted = with_statement(evaluation, ledger=NOTE)
    for known, spent, left, moment in (
        ({"ledger": booked}, 2.5, 0.5, "after all that this run drew"),
        ({"ledger": {**booked, "dataset": "another"}}, 2.1, 0.9, "when this release was reserved"),
        ({}, 2.1, 0.9, "when this release was reserved"),
    ):
        card = public_card(with_known(noted, **known), "mst", FACTS)
        held = validate(card)["privacy"]["ledger"]
        assert (held["note"]["spent_epsilon"], held["left_epsilon"]) == (spent, pytest.approx(left))
        assert held["moment"].startswith(moment)
        assert f"| as it stood | {held['moment']} |" in to_markdown(card)


def test_a_card_tells_of_other_fits_and_of_an_origin_that_nobody_saw(evaluation: Evaluation) -> None:
    first, second, _ = evaluation.candidates
    both = replace(evaluation, candidates=(first, replace(second, statement=first.statement)))
    assert "one of 2 private fits" in " ".join(card_content(public_card(both, "mst", FACTS))["privacy"]["caveats"])
    offered = replace(evaluation, provenance=altered(evaluation.provenance, {"split": None}))
    found = [card_content(public_card(one, "mst", FACTS))["privacy"]["caveats"] for one in (evaluation, offered)]
    assert ["not verified" in " ".join(caveats) for caveats in found] == [False, True]


def test_a_statement_that_nobody_verified_is_no_formal_guarantee(evaluation: Evaluation) -> None:
    offered = replace(evaluation, provenance=altered(evaluation.provenance, {"split": None}))
    for card in (public_card(offered, "mst", FACTS), internal_card(offered, "mst", FACTS)):
        content = validate(card)
        assert content["privacy"]["status"] == "unverified"
        assert "no-formal-guarantee" in content["use"]["tags"]
        assert "differential-privacy" not in content["use"]["tags"]
        assert "**UNVERIFIED" in to_markdown(card)
    assert "differential-privacy" in card_content(public_card(evaluation, "mst", FACTS))["use"]["tags"]
    assert "were drawn from a model" not in public_card(offered, "mst", FACTS).notice


def test_a_point_of_a_sweep_that_nobody_pays_for_has_no_card(evaluation: Evaluation) -> None:
    unpaid = with_known(evaluation, sweep={"releasable": False})
    for card in (public_card, internal_card):
        with pytest.raises(CardError, match="of a sweep that nobody pays for"):
            card(unpaid, "mst", FACTS)


def test_a_table_that_its_job_did_not_name_counts_with_all_that_the_job_drew(evaluation: Evaluation) -> None:
    for release, epsilon in (("mst", 0.9987), ("sdv.tvae", 3.25), (None, 3.25)):
        card = public_card(with_known(evaluation, composed=EVERY, release=release), "mst", FACTS)
        assert leads(card)[0] == epsilon
        assert rows(card) == [("fit", 1, 0.9987), ("run", 3, 3.25)]


BY_NAME = {"evaluations": 8, "tables": 9, "by_name": {"evaluations": 3, "tables": 5, "since": "2026-01-31"}}


@pytest.mark.parametrize(("said", "n"), [(None, None), (BY_NAME, 3), ({"evaluations": 8}, None)])
def test_a_card_says_how_many_evaluations_there_were_or_that_nobody_knows(
    evaluation: Evaluation, said: Any, n: int | None
) -> None:
    counted = replace(evaluation, provenance=altered(evaluation.provenance, {"attempts": said}))
    content = card_content(public_card(counted, "mst", FACTS))
    assert content["evaluations"] == n
    assert ("unknown" in content["evaluations_in_words"]) == (n is None)
    if isinstance(said, dict):
        assert card_content(internal_card(counted, "mst", FACTS))["evaluations"] == 8


def test_the_seed_stays_inside(evaluation: Evaluation) -> None:
    for name in ("mst", "sdv.tvae"):
        assert card_content(public_card(evaluation, name, FACTS))["made"]["seed"] is None
        assert card_content(internal_card(evaluation, name, FACTS))["made"]["seed"] == 20260101


def test_the_terms_of_a_job_are_in_its_card(evaluation: Evaluation) -> None:
    terms = Terms.model_validate({
        "intended_use": "Teaching.", "prohibited_use": ["Pricing."], "license": "CC-BY-4.0", "contact": "dpo@x.org",
        "language": ["de", "en"], "tags": ["health"], "pretty_name": "Patienten", "citation": "A paper",
    })  # fmt: skip
    card = public_card(evaluation, "mst", replace(FACTS, terms=terms))
    used = validate(card)["use"]
    assert used["intended"] == ["Teaching."]
    assert used["prohibited"][0] == "Pricing."
    assert len(used["prohibited"]) > 1, "a job adds to what is prohibited"
    found = front_matter(card)
    assert (found["license"], found["language"], found["pretty_name"]) == ("cc-by-4.0", ["de", "en"], "Patienten")
    assert {"synthetic", "tabular", "differential-privacy", "health"} == set(found["tags"])
    assert "`dpo@x.org`" in to_markdown(card)


def test_the_front_matter_is_that_of_a_dataset_card(evaluation: Evaluation) -> None:
    written = to_markdown(public_card(evaluation, "mst", FACTS))
    found = yaml.safe_load(re.split(r"^---$", written, flags=re.MULTILINE)[1])
    assert found["size_categories"] == ["10K<n<100K"]
    assert found["task_categories"] == ["tabular-classification"]
    files = [{"split": "train", "path": "mst.csv"}]
    assert found["configs"] == [{"config_name": "default", "data_files": files}]
    assert found["license"] in LICENSES


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("MIT", {"license": "mit"}),
        ("Our Own, v2", {"license": "other", "license_name": "our-own-v2"}),
        ("---\nx: y", {"license": "other", "license_name": "x-y"}),
        ("\U0001f600", {"license": "other", "license_name": "unnamed"}),
    ],
)
def test_a_license_that_is_not_on_the_list_goes_by_its_name(
    evaluation: Evaluation, said: str, found: dict[str, str]
) -> None:
    card = public_card(evaluation, "mst", replace(FACTS, terms=Terms(license=said)))
    assert {key: value for key, value in front_matter(card).items() if key.startswith("license")} == found


def renamed(evaluation: Evaluation, hostile: str) -> tuple[Evaluation, CardFacts]:
    """The same with a hostile text in every place where somebody writes one."""
    first, *others = evaluation.candidates
    assert first.statement is not None
    stated = replace(
        first.statement, events=(replace(first.statement.events[0], what=hostile),), unit=hostile,
        accountant=hostile, caveats=(hostile,),
        ledger=LedgerNote(hostile, hostile, hostile, hostile, 1.0, 1.0, 1.0, 1.0),
    )  # fmt: skip
    made = GeneratorRecord(hostile, {hostile: hostile, "list": [hostile, None]})
    estimates = (*first.estimates, Estimate("validity.rows", 1.0, 5, "higher"))
    failures = (Failure(hostile, "failed", hostile),)
    candidate = replace(first, name=hostile, statement=stated, generator=made, estimates=estimates, failures=failures)
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


def as_text(markdown: str) -> None:
    """Rendered with raw HTML allowed, a text without its front matter has no tag of anybody else's and no link."""
    body = markdown.split("\n---\n", 1)[1]
    tokens = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(body)
    inside = [child for token in tokens for child in token.children or []]
    for token in (*tokens, *inside):
        assert token.type not in ("html_block", "html_inline", "link_open", "image", "s_open", "hr"), token
        assert token.type != "em_open"
        assert token.type not in ("code_block", "fence")
    rows = [[t.type for t in tokens[i : next(k for k in range(i, len(tokens)) if tokens[k].type == "tr_close")]]
            for i, t in enumerate(tokens) if t.type == "tr_open"]  # fmt: skip
    assert {sum(kind in ("td_open", "th_open") for kind in row) for row in rows} <= {2, 4, 5, 6}
    shown = "".join(child.content for child in inside if child.type == "text")
    assert not re.search(r"(?i)(https?:|www\.|@[a-z])", shown)


def headings(markdown: str) -> list[str]:
    return re.findall(r"^#+ .*$", markdown, flags=re.MULTILINE)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_name_stays_text(evaluation: Evaluation, verdicts_of: Callable[..., Any], hostile: str) -> None:
    damaged, facts = renamed(evaluation, hostile)
    verdicts = tuple(
        Verdict(v.candidate, hostile, 1, hostile, v.verdict, v.findings) for v in verdicts_of(damaged)[:1]
    )  # fmt: skip
    for card in (internal_card(damaged, hostile, facts, verdicts), public_card(damaged, hostile, facts)):
        content = validate(card)
        assert content["name"] == hostile
        written = to_markdown(card)
        as_text(written)
        found = yaml.safe_load(written.removeprefix("---\n").split("\n---\n", 1)[0])
        assert found == front_matter(card)
        assert "Prohibited use" in " ".join(headings(written))
        assert len(headings(written)) in (12, 15, 16)
        written.encode("utf-8")


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text(max_size=20), st.text() | st.lists(st.text()) | st.floats(allow_nan=False) | st.none()))
def test_yaml_reads_back_whatever_was_written(content: dict[str, Any]) -> None:
    written = to_yaml({"content": content})
    assert yaml.safe_load(written) == {"content": content}
    assert not re.search(r"^(---|\.\.\.)", written, flags=re.MULTILINE)
    assert "!!" not in re.sub(r'"(?:[^"\\]|\\.)*"', "", written)


@settings(max_examples=30, deadline=None)
@given(st.text(alphabet=st.sampled_from("[]()<>!|`\\*_#-+=~$&;:@/.w123 \n\tabhtps\u202e\"'{}"), max_size=60))
def test_any_mixture_of_markup_stays_text(evaluation: Evaluation, hostile: str) -> None:
    damaged, facts = renamed(evaluation, hostile)
    as_text(to_markdown(internal_card(damaged, hostile, facts)))


def test_a_card_is_two_files(evaluation: Evaluation, tmp_path: Path) -> None:
    card = public_card(evaluation, "mst", FACTS)
    paths = write_card(card, tmp_path / "model-card.yaml", tmp_path / "README.md")
    assert {path.name for path in tmp_path.iterdir()} == {"model-card.yaml", "README.md"}
    assert yaml.safe_load(paths[0].read_text(encoding="utf-8")) == card_content(card)


def test_a_card_of_nobody_is_refused(evaluation: Evaluation) -> None:
    with pytest.raises(CardError, match=r"candidate='mts' is not in the evaluation; .*mst"):
        public_card(evaluation, "mts", FACTS)


CROISSANT_KEYS = {
    "@context", "@type", "conformsTo", "creator", "datePublished", "description", "distribution", "license", "name",
    "recordSet", "url",
}  # fmt: skip
"""What the Croissant format 1.0 requires of a data set."""


def test_croissant_metadata_has_what_the_format_requires_and_nothing_that_was_measured(audited: Evaluation) -> None:
    table = pd.DataFrame({"age": [1, 2], "weight": [0.5, None], "ill": [True, False], "town": ["N", "S"]})
    for files, source in (({"mst.csv": "ab" * 32}, "fileObject"), ({"m/1.csv": "a", "m/2.csv": "b"}, "fileSet")):
        content = to_croissant(public_card(audited, "mst", FACTS), files, table)
        found = json.loads(content)
        assert set(found) >= CROISSANT_KEYS and found["conformsTo"][0] == "http://mlcommons.org/croissant/1.0"
        files_told = {one["@id"]: one["sha256"] for one in found["distribution"] if one["@type"] == "cr:FileObject"}
        assert files_told == files
        known = {one["@id"] for one in found["distribution"]}
        fields = found["recordSet"][0]["field"]
        assert all(field["source"][source]["@id"] in known for field in fields)
        types = {field["source"]["extract"]["column"]: field["dataType"] for field in fields}
        assert types == {"age": "sc:Integer", "weight": "sc:Float", "ill": "sc:Boolean", "town": "sc:Text"}
        assert "epsilon 0.999 at delta 1e\u22126, unit row" in found["description"]
        assert content == to_croissant(public_card(otherwise_measured(audited), "mst", FACTS), files, table)
    assert "no formal guarantee" in to_croissant(public_card(audited, "sdv.tvae", FACTS), {"t.csv": "a"}, table)
