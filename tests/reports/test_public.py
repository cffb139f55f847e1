"""The report to hand on holds nothing that was read off real rows but what was released.

Nothing else moves it: every other value of an evaluation may be exchanged, and no byte of the page changes. And no name
of the real table is in it, hashed or not.
"""

import hashlib
import hmac
import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluate.dp_release import release_numbers, released_schedule
from evaluate.engine import evaluate
from evaluate.gate.policy import build_policy
from evaluate.result import Candidate, Estimate, Evaluation, Expectation, GeneratorRecord, SelfTest
from evaluate.result_io import evaluation_from
from reports import render_html
from reports.public import page as public_page
from reports.public.facts import PublicFacts, columns_of, public_facts, public_verdict
from reports.public.page import render_public
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent
from synth.dp.schedule import Schedule
from synth.dp.statement import LedgerNote, PrivacyStatement
from synth.errors import JobError
from synth.schema import build_schema
from synth.split import split_table
from synth.table import conform
from tests.evaluations import altered, conclude, origin
from tests.evaluations import facts as facts_of
from tests.reports.browsing import check_page
from tests.reports.snapshots import check_snapshot, words_of

N_UNITS = 4_000
SCHEMA = build_schema({
    "status": "declared", "n_units": N_UNITS, "dataset": "patients", "target": "ill",
    "columns": {
        "age": {"kind": "integer", "bounds": [18, 90]},
        "income": {"kind": "real", "bounds": [0.0, 200.0], "decimals": 1, "missing": True},
        "town": {"kind": "categorical", "categories": ["North", "South", "East"]},
        "ill": {"kind": "boolean"},
    },
})  # fmt: skip
POLICY = build_policy({
    "name": "clinic", "version": 3, "audience": "a partner under contract", "description": "What a partner may have.",
    "rules": [
        {"measure": "statement.epsilon", "limit": 5.0, "why": "More than 5 is a weak promise."},
        {"measure": "validity.rows", "limit": 0.98, "why": "Rows keep the schema."},
        {"measure": "columns.tvd.released.mean", "limit": 0.6, "why": "Columns are about right."},
        {"measure": "privacy.membership.auc", "limit": 0.55, "why": "Members are not told from others."},
        {"measure": "columns.tvd.excess", "limit": 0.1, "why": "Close to a fresh sample.", "severity": "warn"},
        {"measure": "privacy.audit.excess", "limit": 0.0, "why": "The claim is not disproved."},
    ],
})  # fmt: skip
TITLE = "A survey of patients"


def rows(seed: int, n: int, *, shifted: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(60, 91, n) if shifted else rng.integers(18, 91, n)
    income = np.clip(20 + age + rng.normal(0, 15, n), 0, 200).round(1)
    income[rng.random(n) < 0.07] = np.nan
    town = rng.choice(["North", "South", "East"], n, p=[0.8, 0.1, 0.1] if shifted else [0.2, 0.3, 0.5])
    return pd.DataFrame({"age": age, "income": income, "town": town, "ill": rng.random(n) < age / 100})


def statement(what: str, sigma: float, ledger: LedgerNote | None = None) -> PrivacyStatement:
    schedule = Schedule((GaussianEvent(what, sigma=sigma, count=4),), 1e-6)
    return Budget(schedule, ledger=ledger).statement(SCHEMA)


NOTE = LedgerNote("patients", "row", "aa" * 16, "bb" * 32, 1.4, 2.25, 10.0, 1e-6)


@pytest.fixture(scope="module")
def synthetic() -> pd.DataFrame:
    synthetic = rows(1, 1_500)
    synthetic.loc[3, "age"] = 17  # breaks the schema
    return synthetic


@pytest.fixture(scope="module")
def published(synthetic: pd.DataFrame) -> dict[str, Any]:
    """Numbers as a run leaves them, about a real table that no test below measures."""
    schedule = released_schedule(SCHEMA, 0.5, "auto")
    sides = split_table(conform(rows(7, 3_900), SCHEMA), SCHEMA, private=True)
    budget = Budget(schedule, ledger=NOTE)
    numbers = release_numbers(sides, synthetic, SCHEMA, budget)
    fit = GaussianEvent("one-way histograms of the columns", sigma=12.0, count=4)
    together = Budget(Schedule((fit, *schedule.events), 1e-6)).statement(SCHEMA)
    return {
        "table": "mst", "numbers": list(numbers), "statement": budget.statement(SCHEMA),
        "together": together, "n_fits": 1, "every": {"epsilon": 1.9, "delta": 1e-6, "n_fits": 3},
    }  # fmt: skip


def measured(real: pd.DataFrame, synthetic: pd.DataFrame, published: dict[str, Any] | None) -> Evaluation:
    """An evaluation as a run leaves it, with all that must not get out of it."""
    real = conform(real, SCHEMA)
    half = len(real) // 2
    result = evaluate(
        real[:half],
        {"mst": synthetic, "other": synthetic},
        holdout=real[half:],
        schema=SCHEMA,
        measures=["validity", "fidelity.columns", "privacy.copies"],
    )
    audit = conclude((1.0, 1e-6), (431, 447), 961, 0.99, ran_on="a public stand-in of 936 rows")
    prints = {"table": f"hmac-sha256:{'c' * 64}", "train": f"hmac-sha256:{'d' * 64}"}
    candidates = tuple(
        replace(
            each, statement=statement("one-way histograms of the columns", 12.0, NOTE), audit=audit,
            generator=GeneratorRecord("mst", {"epsilon": 1.0, "n_bins": 32}), seconds={"fit": 12.345 + half},
            n_rejected_rows=half, expected=Expectation(column=0.0125),
        )
        for each in result.candidates
    )  # fmt: skip
    by_name = {"evaluations": 3, "tables": 3, "since": "2026-11-21"}
    provenance = {
        "split": "keyed hash, seed 20261122", "release": "mst",
        "attempts": {"evaluations": 8, "tables": 9, "since": "2026-11-21", "by_name": by_name},
        "seed": 20261122, "fingerprints": prints,
        "warnings": [f"there are {half} rows"], "versions": {"understudy": "0.9.0", "python": "3.11.7"},
        "files_sha256": {"synthetic/mst.csv": "e" * 64}, "job": "a job", "sweep": None, "released_numbers": published,
    }  # fmt: skip
    tests = (SelfTest("copy", candidate=candidates[0]),)
    return replace(result, candidates=candidates, provenance=origin(**provenance), self_tests=tests)


@pytest.fixture(scope="module")
def evaluation(synthetic: pd.DataFrame, published: dict[str, Any]) -> Evaluation:
    return measured(rows(0, 1_000), synthetic, published)


def facts(evaluation: Evaluation, synthetic: pd.DataFrame, **changes: Any) -> PublicFacts:
    known: dict[str, Any] = {"policy": POLICY, "schema": SCHEMA, "synthetic": synthetic, "title": TITLE}
    return public_facts(evaluation, "mst", **{**known, **changes})


@pytest.fixture(scope="module")
def known(evaluation: Evaluation, synthetic: pd.DataFrame) -> PublicFacts:
    return facts(evaluation, synthetic)


@pytest.fixture(scope="module")
def page(known: PublicFacts) -> str:
    return render_public(known)


# ---- Nothing else moves it.


def test_another_real_table_leaves_every_byte_as_it_is(
    evaluation: Evaluation, synthetic: pd.DataFrame, published: dict[str, Any], page: str
) -> None:
    other = measured(rows(5, 700, shifted=True), synthetic, published)
    assert other.to_json() != evaluation.to_json()
    assert render_public(facts(other, synthetic)) == page


PUBLIC_PLACES = (
    "statement", "audit", "generator", "released_numbers", "by_name", "versions", "sweep", "composed", "name",
    "release", "ledger", "schema",
)  # fmt: skip
"""Parts of an evaluation that the report may read: of the candidate's own, those that are public."""


def ordered(content: dict[str, Any]) -> dict[str, Any]:
    """Scrambled numbers of an estimate or an area, which lies within its interval even so."""
    middle = next((name for name in ("value", "auc") if {name, "low", "high"} <= content.keys()), None)
    if middle is None or content["low"] is None:
        return content
    names = ("low", middle, "high")
    return {**content, **dict(zip(names, sorted(content[name] for name in names), strict=True))}


def scrambled(content: Any, rng: np.random.Generator, path: tuple[str, ...] = ()) -> Any:
    """The same plain data with every value exchanged that is not in a public place; shares stay such."""
    if path and path[-1] in PUBLIC_PLACES:
        return content
    if isinstance(content, dict):
        return ordered({key: scrambled(value, rng, (*path, key)) for key, value in content.items()})
    if isinstance(content, list):
        return [scrambled(value, rng, path) for value in content]
    if isinstance(content, float) and -1.0 <= content <= 1.0:
        return rng.random()
    if isinstance(content, int | float) and not isinstance(content, bool):
        return type(content)(1e5 * (1 + 9 * rng.random()))
    kept = not isinstance(content, str) or content == "" or path[-1] in ("measure", "direction", "case", "reason")
    return content if kept else f"text{rng.random()}"


def test_no_value_outside_the_whitelist_moves_a_byte(
    evaluation: Evaluation, synthetic: pd.DataFrame, page: str
) -> None:
    content = json.loads(evaluation.to_json())
    for seed in range(2):
        rng = np.random.default_rng(seed)
        changed = {key: scrambled(value, rng, (key,)) for key, value in content.items() if key != "schema_version"}
        text = json.dumps({**changed, "schema_version": content["schema_version"]})
        other = evaluation_from(text)
        assert other.candidates[0].estimates != evaluation.candidates[0].estimates
        assert render_html(other) != render_html(evaluation), "the exchange reaches what a page can show"
        assert render_public(facts(other, synthetic)) == page
    bare = {"estimates": (), "failures": (), "figures": {}, "seconds": {}, "expected": None, "n_rejected_rows": None}
    candidates = tuple(replace(each, **bare) for each in evaluation.candidates)
    gone = replace(evaluation, candidates=candidates, real=facts_of(), self_tests=())
    assert render_public(facts(gone, synthetic)) == page


def test_facts_have_no_place_for_an_evaluation(known: PublicFacts) -> None:
    assert not [value for value in asdict(known).values() if isinstance(value, Evaluation | Candidate)]
    assert set(asdict(known)) == {
        "title", "table", "policy", "n_rows", "columns", "generator", "statement", "unverified", "claims", "protection",
        "ledger", "moment", "publication", "audit", "valid", "schema", "attempts", "version",
    }  # fmt: skip


# ---- No name of the real table is in it.


def test_no_hash_is_on_the_page_or_beside_it(page: str, known: PublicFacts, tmp_path: Path) -> None:
    from understudy.bundle.evidence import released_json

    assert known.publication is not None
    for text in (page.partition("</style>")[2], released_json(known, known.publication)):
        assert re.findall(r"(?<![\d.])[0-9a-fA-F]{16,}", text) == []
        for name in ("reservation", '"entry"', "fingerprint", "hmac", "seed"):
            assert name not in text


def test_no_digest_of_the_real_rows_or_their_sides_is_on_the_page(evaluation: Evaluation, page: str) -> None:
    real = rows(0, 1_000)
    contents = [part.to_csv(index=False).encode() for part in (real, real[:500], real[500:])]
    contents += [text.encode() for text in evaluation.provenance.fingerprints.values()]
    for content in contents:
        for algorithm in ("md5", "sha1", "sha256", "sha512", "blake2b"):
            for digest in (hashlib.new(algorithm, content), hmac.new(b"key" * 11, content, algorithm)):
                assert digest.hexdigest()[:12] not in page


# ---- What it says.


def with_provenance(evaluation: Evaluation, **changes: Any) -> Evaluation:
    return replace(evaluation, provenance=altered(evaluation.provenance, {"released_numbers": None, **changes}))


def with_candidate(evaluation: Evaluation, **changes: Any) -> Evaluation:
    first, *others = evaluation.candidates
    return replace(evaluation, candidates=(replace(first, **changes), *others))


LENIENT = build_policy({**POLICY.model_dump(), "rules": [
    {"measure": "validity.rows", "limit": 0.5, "why": "Rows keep the schema."},
    {"measure": "privacy.copies", "limit": 0.5, "why": "It is not public, and hidden."}]})  # fmt: skip
AGAINST = conclude((1.0, 1e-6), (4, 4), 960, 0.99, ran_on="a public stand-in of 936 rows")
EVERYTHING = {"epsilon": 3.25, "delta": 2e-6, "n_fits": 3}
BOOKED = {"dataset": "patients", "unit": "row", "spent_epsilon": 3.75, "total_epsilon": 10.0, "total_delta": 1e-6}
NOT_READ = (
    "nothing else was read off real rows", "No name, hash or count of a real table is among it",
    "no number here was read off real rows but under a budget", "no row of a real table was read for them",
    "The guarantee is for the source table as a whole", "See the privacy statement: epsilon",
)  # fmt: skip
"""What is true of a table with a guarantee, and of no other."""


def standings(evaluation: Evaluation) -> dict[str, tuple[Evaluation, str, tuple[float, float] | None]]:
    """An evaluation of each standing, what a policy that only asks for validity says, and the claim."""
    statement = evaluation.candidates[0].statement
    assert statement is not None
    void, own = altered(statement, {"private": False}), (statement.epsilon, 1e-6)
    plain = with_provenance(evaluation)
    first, other = evaluation.candidates
    doubtful = replace(evaluation, candidates=(first, replace(other, audit=AGAINST)))
    two = {"composed": {**EVERYTHING, "n_fits": 2}}
    quiet = replace(doubtful, candidates=(first, replace(other, audit=replace(AGAINST, ran_on="real rows"))))
    every = (3.25, 2e-6)
    return {
        "with published numbers": (evaluation, "PASS", None),
        "alone": (plain, "PASS", own),
        "in a ledger": (with_provenance(evaluation, ledger=BOOKED), "PASS", own),
        "named, of three fits": (with_provenance(evaluation, composed=EVERYTHING), "PASS", own),
        "picked from three fits": (with_provenance(evaluation, composed=EVERYTHING, release=None), "PASS", every),
        "another was named": (with_provenance(evaluation, composed=EVERYTHING, release="other"), "PASS", every),
        "picked, nobody composed": (with_provenance(evaluation, release=None), "PASS", (2 * own[0], 2e-6)),
        "no statement": (with_candidate(plain, statement=None, audit=None), "PASS", None),
        "unverified": (with_provenance(evaluation, split=None, release=None), "INCONCLUSIVE", None),
        "void": (with_candidate(plain, statement=void), "FAIL", None),
        "disputed": (with_candidate(plain, audit=AGAINST), "FAIL", own),
        "named beside a disputed one": (with_provenance(doubtful, **two), "PASS", own),
        "picked beside a disputed one": (with_provenance(doubtful, **two, release=None), "INCONCLUSIVE", every),
        "beside one disputed inside": (with_provenance(quiet, **two, release=None), "PASS", every),
    }


def test_every_standing_has_its_words_its_claim_and_its_verdict(
    evaluation: Evaluation, synthetic: pd.DataFrame
) -> None:
    texts = []
    for name, (changed, outcome, claim) in standings(evaluation).items():
        known = facts(changed, synthetic)
        page = render_public(known)
        assert claim is None or known.claim == claim, name
        assert public_verdict(replace(known, policy=LENIENT)).outcome == outcome, name
        unbound = known.claim is None
        assert [told in page for told in NOT_READ] == [not (unbound or name == "disputed")] * len(NOT_READ), name
        cover, rest = page.partition("<main>")[2].split("</section>", 1)
        assert ("&epsilon;" in cover) is not unbound, name
        assert ("disputed" in cover.lower()) is (name in ("disputed", "picked beside a disputed one")), name
        assert "disputed inside" not in name or "disputed" not in page.lower()
        texts += [f"== {name}", words_of(cover)]
        if name in ("void", "named beside a disputed one", "in a ledger"):  # noise of published numbers has no seed
            texts.append(words_of(rest))
    check_snapshot("public.txt", re.sub(r"Libraries: [^\n]*", "Libraries: ...", "\n".join(texts)))


def test_the_verdict_rests_on_what_is_public_and_says_what_it_leaves_out(known: PublicFacts, page: str) -> None:
    verdict = public_verdict(known)
    measures = [finding.rule.measure for finding in verdict.findings]
    assert measures == ["statement.epsilon", "validity.rows", "columns.tvd.released.mean", "privacy.audit.excess"]
    assert [rule.measure for rule in verdict.hidden] == ["privacy.membership.auc", "columns.tvd.excess"]
    assert "Membership attack" not in page, "rules that cannot be shown are counted, not listed"
    assert known.publication is not None and known.statement is not None
    assert known.claim == (known.publication.together.epsilon, 1e-6)
    assert known.claim[0] > known.statement.epsilon
    strict = build_policy({**POLICY.model_dump(), "rules": [
        {"measure": "statement.epsilon", "limit": known.statement.epsilon, "why": "As fitted."}]})  # fmt: skip
    assert public_verdict(replace(known, policy=strict)).outcome == "FAIL"


def test_a_table_without_a_guarantee_never_looks_like_one_that_has_it(
    evaluation: Evaluation, synthetic: pd.DataFrame, known: PublicFacts
) -> None:
    looks: dict[bool, set[tuple[str, str]]] = {True: set(), False: set()}
    each = standings(evaluation)
    for table in (known, *(facts(each[name][0], synthetic) for name in ("no statement", "unverified"))):
        for hidden in ((), public_verdict(known).hidden):
            for outcome in ("PASS", "INCONCLUSIVE", None):
                verdict = replace(public_verdict(known), outcome=outcome, hidden=hidden)
                looks[table is known].add(public_page.words_of(table, verdict))
    assert not looks[True] & looks[False]
    assert {symbol for _, symbol in looks[False]} == {"bare"}
    assert {symbol for _, symbol in looks[True]} == {"part", "pass", "open", "none"}


def test_what_is_internal_never_shows(evaluation: Evaluation, synthetic: pd.DataFrame, page: str) -> None:
    """An attack that succeeds; an audit on anything but a public stand-in; an inferred schema."""
    alarm = Estimate("privacy.membership.auc", 0.99, 500, "lower", low=0.98, high=1.0)
    bad = replace(evaluation.candidates[0], estimates=(*evaluation.candidates[0].estimates, alarm))
    assert render_public(facts(replace(evaluation, candidates=(bad,)), synthetic)) == page
    ran = conclude((1.0, 1e-6), (431, 447), 961, 0.99, ran_on="the table of the clinic in Northtown")
    private = facts(with_candidate(evaluation, audit=ran), synthetic)
    assert private.audit is None
    assert "Northtown" not in render_public(private)
    content = {**SCHEMA.model_dump(mode="json"), "status": "inferred"}
    content["columns"] = {**content["columns"], "age": {"kind": "integer", "bounds": [18, 98765]}}
    inferred = facts(evaluation, synthetic, schema=build_schema(content))
    assert inferred.schema is inferred.valid is None
    assert not re.search("98,?765", render_public(inferred))
    assert {column.name for column in inferred.columns} <= set(synthetic.columns)


def test_a_hostile_table_is_shown_as_text_and_one_that_cannot_be_read_has_no_pictures(
    evaluation: Evaluation, synthetic: pd.DataFrame
) -> None:
    evil = "</title></svg><script>alert(1)</script>{{7*7}}"
    renamed = synthetic.rename(columns={"town": evil})
    columns = {
        evil if name == "town" else name: each for name, each in SCHEMA.model_dump(mode="json")["columns"].items()
    }
    schema = build_schema({**SCHEMA.model_dump(mode="json"), "columns": columns})
    hostile = replace(evaluation.candidates[0], generator=GeneratorRecord(evil, {evil: [evil]}), name="mst")
    page = render_public(facts(replace(evaluation, candidates=(hostile,)), renamed, schema=schema, title=evil))
    assert "<script" not in page
    assert "{{7*7}}" in page
    assert page.count("</title>") == page.count("<title>")
    assert columns_of(pd.DataFrame({"a": []}), None) == columns_of(pd.DataFrame({"b": [1]}), SCHEMA) == ()
    with pytest.raises(JobError, match="was not evaluated"):
        public_facts(evaluation, "nobody", policy=POLICY, schema=SCHEMA, synthetic=synthetic, title=TITLE)


@pytest.mark.parametrize("width", [1440, 390])
def test_the_page_is_quiet_readable_and_fits(browser: Any, page: str, tmp_path: Path, width: int) -> None:
    path = tmp_path / "report-to-hand-on.html"
    path.write_text(page, encoding="utf-8")
    assert "<script" not in page and "default-src 'none'" in page
    check_page(browser, path, width, ".scroll")
