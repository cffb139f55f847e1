"""The report to hand on holds nothing that was read off real rows but what was released: shown in three ways.

Nothing else moves it: every other value of an evaluation may be exchanged, and no byte of the page changes. Nothing
else is in it: each number on the page is one of a public list. And no name of the real table is in it, hashed or not.
"""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, is_dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from evaluate.dp_release import Released, release_numbers, released_schedule
from evaluate.engine import evaluate
from evaluate.gate.finding import Outcome
from evaluate.gate.policy import build_policy
from evaluate.gate.protection import Protection
from evaluate.metrics import CATALOG
from evaluate.result import Candidate, Estimate, Evaluation, Expectation, GeneratorRecord, SelfTest
from evaluate.result_io import evaluation_from
from evaluate.text import alike, at_most, compact, count, loss, number, percent
from reports.audits import audit_note
from reports.glossary import entry
from reports.public import page as public_page
from reports.public.facts import PublicFacts, public_facts
from reports.public.page import column_chart, released_strip, render_public
from reports.public.verdict import PublicVerdict, public_verdict
from reports.sections.guidelines import CRITERIA, NOT_COVERED
from reports.sections.privacy_budget import books_of
from reports.sections.privacy_budget import exact as digits
from synth.dp.budget import Budget
from synth.dp.events import GaussianEvent
from synth.dp.schedule import Schedule
from synth.dp.schedule_file import stated_schedule
from synth.dp.statement import LedgerNote, PrivacyStatement
from synth.dp.tradeoff import FALSE_ALARMS, TradeOff
from synth.errors import JobError
from synth.schema import build_schema
from synth.split import split_table
from synth.table import conform
from tests.evaluations import altered, conclude, origin
from tests.evaluations import facts as facts_of
from tests.reports.browsing import NAMELESS, UNREADABLE, visiting

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
    made = rows(1, 1_500)
    made.loc[3, "age"] = 17  # breaks the schema
    return made


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
    found = evaluate(
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
            one, statement=statement("one-way histograms of the columns", 12.0, NOTE), audit=audit,
            generator=GeneratorRecord("mst", {"epsilon": 1.0, "n_bins": 32}), seconds={"fit": 12.345 + half},
            n_rejected_rows=half, expected=Expectation(column=0.0125),
        )
        for one in found.candidates
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
    return replace(found, candidates=candidates, provenance=origin(**provenance), self_tests=tests)


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


def scrambled(content: Any, rng: np.random.Generator, place: tuple[str, ...] = ()) -> Any:
    """The same plain data with every value exchanged that is not in a public place; shares stay such."""
    if place and place[-1] in PUBLIC_PLACES:
        return content
    if isinstance(content, dict):
        return ordered({key: scrambled(value, rng, (*place, key)) for key, value in content.items()})
    if isinstance(content, list):
        return [scrambled(value, rng, place) for value in content]
    if isinstance(content, float) and -1.0 <= content <= 1.0:
        return rng.random()
    if isinstance(content, int | float) and not isinstance(content, bool):
        return type(content)(1e5 * (1 + 9 * rng.random()))
    kept = not isinstance(content, str) or content == "" or place[-1] in ("measure", "direction", "case", "reason")
    return content if kept else f"text{rng.random()}"


def test_no_value_outside_the_whitelist_moves_a_byte(
    evaluation: Evaluation, synthetic: pd.DataFrame, page: str
) -> None:
    content = json.loads(evaluation.to_json())
    for seed in range(3):
        rng = np.random.default_rng(seed)
        changed = {key: scrambled(value, rng, (key,)) for key, value in content.items() if key != "schema_version"}
        text = json.dumps({**changed, "schema_version": content["schema_version"]})
        other = evaluation_from(text)
        assert other.candidates[0].estimates != evaluation.candidates[0].estimates
        assert render_public(facts(other, synthetic)) == page
    bare = {"estimates": (), "failures": (), "figures": {}, "seconds": {}, "expected": None, "n_rejected_rows": None}
    candidates = tuple(replace(one, **bare) for one in evaluation.candidates)
    gone = replace(evaluation, candidates=candidates, real=facts_of(), self_tests=())
    assert render_public(facts(gone, synthetic)) == page


def test_facts_have_no_place_for_an_evaluation(known: PublicFacts) -> None:
    assert not [v for v in asdict(known).values() if isinstance(v, Evaluation | Candidate)]
    assert set(asdict(known)) == {
        "title", "table", "policy", "n_rows", "columns", "generator", "statement", "unverified", "claims", "protection",
        "ledger", "moment", "publication", "audit", "valid", "schema", "attempts", "version",
    }  # fmt: skip


# ---- Nothing else is in it.

_TOKEN = re.compile(r"(?<![A-Za-z_])\d[\d,.]*(?:e[-\u2212+]?\d+)?")


def tokens(text: str) -> set[str]:
    """Every number in a text, as it is written."""
    return {found.rstrip(".,") for found in _TOKEN.findall(text)}


class Numbers(HTMLParser):
    """Every number that a page shows or hides: in text, attributes, comments, all but its one style sheet."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self._style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._style = tag == "style"
        for name, value in attrs:
            if not (tag == "meta" and "style-src" in (value or "")):
                self._take(f"{name}={value}")

    def handle_endtag(self, tag: str) -> None:
        self._style = False

    def handle_data(self, data: str) -> None:
        if not self._style:
            self._take(data)

    def handle_comment(self, data: str) -> None:
        self._take(data)

    def _take(self, text: str) -> None:
        self.found.update(dict.fromkeys(tokens(text), text.strip()[:80]))


def leaves(content: Any) -> Iterator[Any]:
    if is_dataclass(content) and not isinstance(content, type):
        content = asdict(content)
    if isinstance(content, dict):
        for key, value in content.items():
            yield key
            yield from leaves(value)
    elif isinstance(content, list | tuple):
        for value in content:
            yield from leaves(value)
    else:
        yield content


def written(value: Any) -> set[str]:
    """The ways in which the page writes a value."""
    if isinstance(value, bool) or value is None:
        return set()
    if isinstance(value, int | float):
        shown = [number(value), compact(value), loss(value), digits(value), count(value), percent(value), str(value)]
        return set().union(*(tokens(text) for text in shown))
    return tokens(str(value))


def of(content: Any) -> set[str]:
    return set().union(set(), *(written(leaf) for leaf in leaves(content)))


def public_list(facts: PublicFacts) -> set[str]:
    """Every number that may be on the page: released, stated, written in policy or schema, or shown by the table."""
    templates = Path(public_page.__file__).parents[1] / "templates"
    static = " ".join((templates / f"{name}.html.j2").read_text() for name in ("public", "privacy", "macros"))
    words = [*public_page.STANDING, *public_page.OF_NUMBERS, *NOT_COVERED]
    words += [word for c in CRITERIA for word in (c.source, c.title, c.asks, c.public, c.without)]
    words += [word for measure in CATALOG for word in (entry(measure).title, measure)]
    allowed = tokens(static) | set().union(*(tokens(word) for word in words))
    allowed |= of(facts.policy.model_dump()) | of(facts.generator) | written(facts.attempts) | tokens(facts.version)
    allowed |= written(facts.n_rows) | tokens(facts.title)
    if facts.schema is not None:
        allowed |= of(facts.schema.model_dump(mode="json")) | written(len(facts.schema.kept))
    if facts.valid is not None:
        allowed |= beside(facts.valid)
    if facts.statement is not None:
        allowed |= stated(facts.table, facts.statement)
    if facts.claims is not None:
        allowed |= of([asdict(one) for one in facts.claims.all]) | limited(facts)
    if facts.ledger is not None:
        allowed |= of(facts.ledger)
    if facts.publication is not None:
        found = facts.publication
        allowed |= stated("", found.statement) | stated("", found.together) | of([found.n_fits])
        for one in found.numbers:
            allowed |= of(one) | written(one.deviation) | beside(one)
            tops = [1.0, max(max(o.high, o.expected or 0) for o in found.numbers if o.counts == "half rows" and (
                    o.measure == "columns.tvd.released") == (one.measure == "columns.tvd.released"))]  # fmt: skip
            for top in tops:
                allowed |= drawn(str(released_strip(one, top)))
    for column in facts.columns:
        allowed |= drawn(str(column_chart(column)))
    allowed |= audited(facts)
    verdict = public_verdict(facts)
    sizes = (len(verdict.findings), len(verdict.hidden), len(facts.policy.rules), len(verdict.binding))
    allowed |= of(len(verdict.hidden) - verdict.n_binding_hidden) | tokens(verdict.held)
    return allowed | of([*sizes, verdict.n_binding_hidden, *(f.estimate.value for f in verdict.findings if f.estimate)])


def limited(facts: PublicFacts) -> set[str]:
    """What follows from the claim, and from the published statement of all that counts; from nothing else."""
    assert facts.claims is not None
    epsilon, delta = facts.claims.counted.epsilon, facts.claims.counted.delta
    found = [Protection(epsilon, delta, TradeOff.of_claim(epsilon, delta))]
    stated = facts.statement if facts.publication is None else facts.publication.together
    assert stated is not None
    books = stated_schedule("", stated.to_dict())
    found.append(Protection(epsilon, delta, books.trade_off, tuple(books.groups.items())))
    said = [word for one in found for word in (*one.tests("row"), *one.definition("row", ""), one.together("row"))]
    limits = [limit for one in found for limit in (one.limit, one.by_claim)]
    shares = [limit.detections(rate) for limit in limits for rate in FALSE_ALARMS]
    said += [at_most(share) for share in shares]
    return of([one.groups for one in found]) | set().union(*(tokens(word) for word in said)) | {"0.1", "1", "10"}


def beside(found: Estimate | Released) -> set[str]:
    """A number with the ends of its interval, alone and with as many decimals each."""
    ends = (found.value, found.low, found.high)
    return of(list(ends)) | set().union(*(tokens(text) for text in alike(*ends)))


def stated(name: str, statement: Any) -> set[str]:
    books = books_of(name, statement)
    lines = [word for line in books.lines for word in (*line.noise, count(line.times), line.what)]
    return (
        of(statement)
        | set().union(set(), *(tokens(word) for word in lines))
        | of([books.rho, books.own_delta, *(line.rho for line in books.lines)])
    )


def audited(facts: PublicFacts) -> set[str]:
    note = audit_note(Candidate("", (), audit=facts.audit))
    return (
        set() if note is None else tokens(f"{note.bound} {note.excess} {note.sentence} {note.reading} {note.evidence}")
    )


def drawn(svg: str) -> set[str]:
    reader = Numbers()
    reader.feed(svg)
    return set(reader.found)


def unexplained(page: str, facts: PublicFacts) -> dict[str, str]:
    """Numbers on the page that are on no public list, each with where it stands."""
    reader = Numbers()
    reader.feed(page)
    allowed = public_list(facts)
    return {found: where for found, where in reader.found.items() if found not in allowed}


def test_every_number_on_the_page_is_on_a_public_list(page: str, known: PublicFacts) -> None:
    assert len(drawn(page)) > 200
    assert unexplained(page, known) == {}


def test_every_number_is_explained_without_released_ones_and_without_a_guarantee(
    evaluation: Evaluation, synthetic: pd.DataFrame
) -> None:
    plain = replace(evaluation, provenance=altered(evaluation.provenance, {"released_numbers": None}))
    for changed in (plain, replace(plain, candidates=(replace(plain.candidates[0], statement=None, audit=None),))):
        told = facts(changed, synthetic)
        assert unexplained(render_public(told), told) == {}


@pytest.mark.parametrize(
    "leak",
    [
        "<p>It was fitted on 39,074 rows.</p>",
        '<p title="39074 rows">Fitted.</p>',
        "<!-- 39074 -->",
        '<svg><rect x="12.7345"/></svg>',
        '<td class="n">0.5417</td>',
        '<div data-rows="39074"></div>',
        "<script>var n = 39074;</script>",
    ],
)
def test_a_number_of_the_real_table_would_be_found(page: str, known: PublicFacts, leak: str) -> None:
    assert unexplained(page.replace("</main>", f"{leak}</main>"), known)


def test_a_template_that_shows_training_rows_would_be_found(
    monkeypatch: pytest.MonkeyPatch, evaluation: Evaluation, synthetic: pd.DataFrame, known: PublicFacts
) -> None:
    """The whitelist widened by one careless line, as it might happen."""
    told = replace(known, generator=GeneratorRecord("mst", {"train_rows": evaluation.real.train_rows}))
    assert evaluation.real.train_rows == 500
    assert "500" in unexplained(render_public(told), known).keys() | of(known.policy.model_dump())
    told = replace(known, generator=GeneratorRecord("mst", {"seconds": evaluation.candidates[0].seconds["fit"]}))
    assert unexplained(render_public(told), known)


# ---- No name of the real table is in it.


def test_no_hash_is_on_the_page_or_beside_it(page: str, known: PublicFacts, tmp_path: Path) -> None:
    from understudy.run.released_numbers import released_json

    assert known.publication is not None
    for text in (page.partition("</style>")[2], released_json(known, known.publication)):
        assert re.findall(r"(?<![\d.])[0-9a-fA-F]{16,}", text) == []
        for name in ("reservation", '"entry"', "fingerprint", "hmac", "seed"):
            assert name not in text


def test_no_digest_of_the_real_rows_or_their_sides_is_on_the_page(
    evaluation: Evaluation, page: str, tmp_path: Path
) -> None:
    real = rows(0, 1_000)
    parts = [real, real[:500], real[500:]]
    contents = [part.to_csv(index=False).encode() for part in parts]
    contents += [text.encode() for text in evaluation.provenance.fingerprints.values()]
    for content in contents:
        for algorithm in ("md5", "sha1", "sha256", "sha512", "blake2b"):
            for digest in (hashlib.new(algorithm, content), hmac.new(b"key" * 11, content, algorithm)):
                forms = (digest.hexdigest(), base64.b64encode(digest.digest()).decode())
                assert not any(form[:12] in page for form in forms)


def test_the_page_needs_no_network_and_no_script(page: str) -> None:
    assert "<script" not in page
    assert "default-src 'none'" in page
    assert not re.findall(r"(?:src|href)=\"(?!#)", page)
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")


# ---- What it says.


def test_the_verdict_rests_on_what_is_public_and_says_what_it_leaves_out(known: PublicFacts, page: str) -> None:
    verdict = public_verdict(known)
    shown = {finding.rule.measure: finding.outcome for finding in verdict.findings}
    assert shown == {
        "statement.epsilon": "PASS", "validity.rows": "PASS", "columns.tvd.released.mean": "PASS",
        "privacy.audit.excess": shown["privacy.audit.excess"],
    }  # fmt: skip
    assert [rule.measure for rule in verdict.hidden] == ["privacy.membership.auc", "columns.tvd.excess"]
    assert "Membership attack" not in page, "rules that cannot be shown are counted, not listed"
    assert "<b>nothing is said of them here</b>" in page


def held(verdict: PublicVerdict, *outcomes: Outcome) -> PublicVerdict:
    """A verdict with as many binding rules, of these outcomes."""
    first = verdict.findings[0]
    return replace(verdict, findings=tuple(replace(first, outcome=outcome) for outcome in outcomes))


def test_rules_that_are_not_shown_are_counted_and_take_the_tick_away(known: PublicFacts) -> None:
    verdict = replace(public_verdict(known), outcome="PASS")
    for outcomes, said in (
        (("PASS",), "1 of 2 binding rules can be shown here; it holds"),
        (("PASS", "PASS"), "2 of 3 binding rules can be shown here; both hold"),
        (("PASS",) * 3, "3 of 4 binding rules can be shown here; all of these hold"),
        (("PASS", "FAIL", "FAIL"), "3 of 4 binding rules can be shown here; 1 holds, 2 fail"),
        (("INCONCLUSIVE",), "1 of 2 binding rules can be shown here; 1 is open"),
        ((), "None of 1 binding rules can be shown here"),
    ):
        assert held(verdict, *outcomes).held == said  # type: ignore[arg-type]
    part = held(verdict, "PASS", "PASS")
    assert public_page.words_of(known, part) == (part.held, "part")
    whole = replace(part, hidden=())
    assert public_page.words_of(known, whole) == ("PASS", "pass")


def test_a_table_without_a_guarantee_never_looks_like_one_that_has_it(
    evaluation: Evaluation, synthetic: pd.DataFrame, known: PublicFacts
) -> None:
    plain = with_provenance(evaluation)
    looks = {}
    for name, told in (
        ("guaranteed", known),
        ("none", facts(with_candidate(plain, statement=None, audit=None), synthetic)),
        ("unverified", facts(with_provenance(evaluation, split=None, release=None), synthetic)),
    ):
        for whole in (False, True):
            hidden = () if whole else public_verdict(known).hidden
            for outcome in ("PASS", "INCONCLUSIVE", None):
                verdict = replace(public_verdict(known), outcome=outcome, hidden=hidden)
                looks[name, whole, outcome] = public_page.words_of(told, verdict)
    own = {look for (name, *_), look in looks.items() if name == "guaranteed"}
    assert not own & {look for (name, *_), look in looks.items() if name != "guaranteed"}
    assert {symbol for (name, *_), (_, symbol) in looks.items() if name != "guaranteed"} == {"bare"}
    assert {symbol for _, symbol in own} == {"part", "pass", "open", "none"}


def test_the_verdict_stands_with_its_audience_its_policy_and_what_is_not_guaranteed(
    evaluation: Evaluation, synthetic: pd.DataFrame, page: str
) -> None:
    for_whom, ruled = "for <bdi>a partner under contract</bdi>", "nder policy <b><bdi>clinic</bdi></b>, version 3"
    assert f"{ruled}.</p>" in page and for_whom in page.lower()
    bare = with_candidate(with_provenance(evaluation), statement=None, audit=None)
    assert f"{ruled}; <b>no formal guarantee</b>.</p>" in render_public(facts(bare, synthetic))
    lenient = render_public(facts(bare, synthetic, policy=LENIENT))
    assert f"<span>{public_page.BARE}</span>" in lenient
    assert "i-pass" not in lenient.partition("<main>")[2].partition("</section>")[0]


def test_the_internal_verdict_never_shows(evaluation: Evaluation, synthetic: pd.DataFrame, page: str) -> None:
    """An attack that succeeds fails the internal rule; the page to hand on is the same page."""
    alarm = Estimate("privacy.membership.auc", 0.99, 500, "lower", low=0.98, high=1.0)
    bad = replace(evaluation.candidates[0], estimates=(*evaluation.candidates[0].estimates, alarm))
    assert render_public(facts(replace(evaluation, candidates=(bad,)), synthetic)) == page


def test_the_claim_is_that_of_everything_together(known: PublicFacts) -> None:
    assert known.publication is not None
    assert known.statement is not None
    assert known.claim == (known.publication.together.epsilon, 1e-6)
    assert known.claim[0] > known.statement.epsilon
    strict = build_policy({**POLICY.model_dump(), "rules": [
        {"measure": "statement.epsilon", "limit": known.statement.epsilon, "why": "As fitted."}]})  # fmt: skip
    assert public_verdict(replace(known, policy=strict)).outcome == "FAIL"


def test_a_table_without_a_guarantee_says_so_and_claims_nothing(
    evaluation: Evaluation, synthetic: pd.DataFrame
) -> None:
    bare = replace(evaluation.candidates[0], statement=None, audit=None)
    plain = replace(
        evaluation, candidates=(bare,), provenance=altered(evaluation.provenance, {"released_numbers": None})
    )
    told = facts(plain, synthetic)
    page = render_public(told)
    assert "NO FORMAL GUARANTEE" in page
    assert public_verdict(told).outcome == "FAIL"
    assert "Released numbers" not in page
    assert told.claim is None


NOT_READ = (
    "nothing else was read off real rows", "No name, hash or count of a real table is among it",
    "no number here was read off real rows but under a budget", "no row of a real table was read for them",
    "The guarantee is for the source table as a whole", "See the privacy statement: epsilon",
)  # fmt: skip
"""What is true of a table with a guarantee, and of no other."""


def with_provenance(evaluation: Evaluation, **changes: Any) -> Evaluation:
    return replace(evaluation, provenance=altered(evaluation.provenance, {"released_numbers": None, **changes}))


def with_candidate(evaluation: Evaluation, **changes: Any) -> Evaluation:
    first, *others = evaluation.candidates
    return replace(evaluation, candidates=(replace(first, **changes), *others))


LENIENT = build_policy({**POLICY.model_dump(), "rules": [
    {"measure": "validity.rows", "limit": 0.5, "why": "Rows keep the schema."},
    {"measure": "privacy.copies", "limit": 0.5, "why": "It is not public, and hidden."}]})  # fmt: skip


def test_what_is_not_read_off_real_rows_is_said_where_a_guarantee_holds_and_nowhere_else(
    evaluation: Evaluation, synthetic: pd.DataFrame, page: str
) -> None:
    assert all(said in page for said in NOT_READ)
    void = altered(evaluation.candidates[0].statement, {"private": False})
    known = with_provenance(evaluation)
    for changed in (
        with_candidate(known, statement=None, audit=None),
        with_candidate(known, statement=void),
        with_provenance(evaluation, split=None, release=None),
    ):
        told = facts(changed, synthetic)
        page = render_public(told)
        assert not any(said in page for said in NOT_READ)
        assert "may be that of the training rows" in page
        assert "guarantee: nothing bounds what the table itself tells of real rows</p>" in page
        assert unexplained(page, told) == {}


def test_an_epsilon_that_nobody_verified_is_no_fact_and_passes_nothing(
    evaluation: Evaluation, synthetic: pd.DataFrame
) -> None:
    offered = with_provenance(evaluation, split=None, release=None)
    told = facts(offered, synthetic)
    cover = re.sub(r"<[^>]*>", " ", render_public(told).partition("<main>")[2].partition("</section>")[0])
    assert told.claim is None
    assert "UNVERIFIED" in cover
    assert "it was not verified" in cover
    assert "NO VERIFIED GUARANTEE" in cover
    assert "\u03b5" not in cover
    assert "&epsilon;" not in cover
    ruled = {finding.rule.measure: finding.outcome for finding in public_verdict(told).findings}
    assert ruled["statement.epsilon"] == "INCONCLUSIVE"
    assert public_verdict(facts(evaluation, synthetic, policy=LENIENT)).outcome == "PASS"
    assert public_verdict(replace(told, policy=LENIENT)).outcome == "INCONCLUSIVE"
    assert "Unverified" in render_public(told).partition('id="guarantee"')[2].partition("</article>")[0]


def test_a_void_statement_has_no_epsilon_on_the_cover_and_never_passes(
    evaluation: Evaluation, synthetic: pd.DataFrame
) -> None:
    void = altered(evaluation.candidates[0].statement, {"private": False})
    told = facts(with_candidate(with_provenance(evaluation), statement=void), synthetic)
    cover = render_public(told).partition("<main>")[2].partition("</section>")[0]
    assert "VOID" in cover
    assert "no formal guarantee" in cover
    assert "epsilon;" not in cover
    assert public_verdict(replace(told, policy=LENIENT)).outcome == "FAIL"


AGAINST = conclude((1.0, 1e-6), (4, 4), 960, 0.99, ran_on="a public stand-in of 936 rows")


def test_a_claim_that_its_audit_disproves_is_disputed_beside_its_number_and_never_passes(
    evaluation: Evaluation, synthetic: pd.DataFrame
) -> None:
    for changed in (evaluation, with_provenance(evaluation)):
        told = facts(with_candidate(changed, audit=AGAINST), synthetic)
        page = render_public(told)
        cover, rest = page.partition("<main>")[2].split("</section>", 1)
        assert "(disputed)" in cover.partition("&epsilon; = ")[2].partition("</p>")[0]
        assert "false and must not be relied on" in cover
        assert "<small>disputed: see the audit</small>" in rest
        assert not any(said in page for said in NOT_READ)
        assert public_verdict(replace(told, policy=LENIENT)).outcome == "FAIL"
        assert unexplained(page, told) == {}


def test_a_number_that_counts_a_disputed_fit_of_another_table_says_so(
    evaluation: Evaluation, synthetic: pd.DataFrame
) -> None:
    first, other = evaluation.candidates
    everything = {"epsilon": 3.25, "delta": 2e-6, "n_fits": 2}
    run = replace(evaluation, candidates=(first, replace(other, audit=AGAINST)))
    doubt = "DISPUTED: an audit disproves what one of these releases claims alone"
    named = facts(with_provenance(run, composed=everything), synthetic)
    page = render_public(named)
    assert doubt in page.partition("come to epsilon 3.25")[2].partition("</p>")[0]
    assert "disputed" not in page.partition("<main>")[2].partition("</section>")[0].lower()
    assert public_verdict(replace(named, policy=LENIENT)).outcome == "PASS"
    picked = facts(with_provenance(run, composed=everything, release=None), synthetic)
    page = render_public(picked)
    assert "= 3.25</b> <b>(disputed)</b>" in page
    assert doubt in page
    assert public_verdict(replace(picked, policy=LENIENT)).outcome == "INCONCLUSIVE"
    assert unexplained(page, picked) == {}
    quiet = replace(run, candidates=(first, replace(other, audit=replace(AGAINST, ran_on="real rows"))))
    assert "disputed" not in render_public(facts(with_provenance(quiet, composed=everything), synthetic)).lower()


def test_a_table_that_was_picked_counts_with_all_that_it_was_picked_from(
    evaluation: Evaluation, synthetic: pd.DataFrame
) -> None:
    everything = {"epsilon": 3.25, "delta": 2e-6, "n_fits": 3}
    named = with_provenance(evaluation, composed=everything)
    assert evaluation.candidates[0].statement is not None
    own = evaluation.candidates[0].statement.epsilon
    alone = facts(named, synthetic)
    assert alone.claim == (own, 1e-6)
    assert "The job drew more, which stays inside: all 3 private releases" in render_public(alone)
    assert unexplained(render_public(alone), alone) == {}
    for release in ("other", None):
        told = facts(with_provenance(named, composed=everything, release=release), synthetic)
        assert told.claim == (3.25, 2e-6)
        page = render_public(told)
        assert "= 3.25</b>" in page
        assert "that of all 3 private releases that its run drew" in page
        assert unexplained(page, told) == {}
    uncounted = facts(with_provenance(evaluation, release=None), synthetic)
    assert uncounted.claim == (2 * own, 2e-6)


def test_an_audit_on_anything_but_a_public_stand_in_stays_inside(
    evaluation: Evaluation, synthetic: pd.DataFrame
) -> None:
    ran = conclude((1.0, 1e-6), (431, 447), 961, 0.99, ran_on="the table of the clinic in Northtown")
    told = facts(with_candidate(evaluation, audit=ran), synthetic)
    page = render_public(told)
    assert told.audit is None
    assert "Northtown" not in page
    assert "on a public stand-in made of constants" not in page


def test_an_inferred_schema_stays_inside(evaluation: Evaluation, synthetic: pd.DataFrame) -> None:
    content = {**SCHEMA.model_dump(mode="json"), "status": "inferred"}
    content["columns"] = {**content["columns"], "age": {"kind": "integer", "bounds": [18, 98765]}}
    told = facts(evaluation, synthetic, schema=build_schema(content))
    assert told.schema is None
    assert told.valid is None
    page = render_public(told)
    assert "98765" not in page
    assert "98,765" not in page
    assert {column.name for column in told.columns} <= set(synthetic.columns)
    assert unexplained(page, told) == {}


def test_a_hostile_table_is_shown_as_text(evaluation: Evaluation, synthetic: pd.DataFrame) -> None:
    evil = "</title></svg><script>alert(1)</script>{{7*7}}"
    renamed = synthetic.rename(columns={"town": evil})
    columns = {evil if name == "town" else name: one for name, one in SCHEMA.model_dump(mode="json")["columns"].items()}
    schema = build_schema({**SCHEMA.model_dump(mode="json"), "columns": columns})
    hostile = replace(evaluation.candidates[0], generator=GeneratorRecord(evil, {evil: [evil]}), name="mst")
    page = render_public(facts(replace(evaluation, candidates=(hostile,)), renamed, schema=schema, title=evil))
    assert "<script" not in page
    assert "{{7*7}}" in page
    assert page.count("</title>") == page.count("<title>")


def test_a_table_that_cannot_be_read_has_no_pictures(evaluation: Evaluation) -> None:
    from reports.public.facts import columns_of

    assert columns_of(pd.DataFrame({"a": []}), None) == columns_of(pd.DataFrame({"b": [1]}), SCHEMA) == ()


def test_a_candidate_that_is_not_there_and_damaged_numbers_are_refused(
    evaluation: Evaluation, synthetic: pd.DataFrame
) -> None:
    with pytest.raises(JobError, match="was not evaluated"):
        public_facts(evaluation, "nobody", policy=POLICY, schema=SCHEMA, synthetic=synthetic, title=TITLE)
    content = asdict(evaluation.provenance)["released_numbers"]
    for damage in ({"numbers": [{}]}, {"statement": None}, {"every": 3}, {"n_fits": "x"}):
        with pytest.raises(ValidationError):
            altered(evaluation.provenance, {"released_numbers": {**content, **damage}})


def test_the_ledger_is_shown_as_it_stood_after_all_that_the_run_drew(
    evaluation: Evaluation, synthetic: pd.DataFrame
) -> None:
    booked = {"dataset": "patients", "unit": "row", "spent_epsilon": 3.75, "total_epsilon": 10.0, "total_delta": 1e-6}
    after, before = "after all that this run drew", "when this release was reserved"
    for ledger, spent, moment in ((booked, "3.75", after), (None, "2.25", before)):
        told = facts(with_provenance(evaluation, ledger=ledger), synthetic)
        page = render_public(told)
        assert f"<dt>Spent by all releases</dt><dd>{spent} " in page
        assert f"As it stood {moment}" in page
        assert unexplained(page, told) == {}


STRIPS = """() => [...document.querySelectorAll("svg.strip")].map(one => one.getBoundingClientRect().width)"""
CUT = """() => [...document.querySelectorAll(".scroll")].filter(one => one.scrollWidth > one.clientWidth)
  .map(one => `${one.ariaLabel}: ${one.scrollWidth} in ${one.clientWidth}`)"""


@pytest.mark.parametrize("width", [1440, 1280, 390])
def test_the_page_is_quiet_readable_and_fits(browser: Any, page: str, tmp_path: Path, width: int) -> None:
    path = tmp_path / "report-to-hand-on.html"
    path.write_text(page, encoding="utf-8")
    with visiting(browser, path, width, java_script_enabled=True) as visit:
        assert visit.told == []
        assert visit.asked == [path.as_uri()]
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        assert min(visit.page.evaluate(STRIPS)) >= 140
        assert visit.page.evaluate(CUT) == []
        assert visit.page.evaluate(UNREADABLE)["found"] == []
        assert visit.page.evaluate(NAMELESS) == []
