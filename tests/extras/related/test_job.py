"""A job of related tables: keys are valid, one payment, no unit on two sides, and the verdict is the worst there is."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomli_w

from evaluate.gate.claim import claims_of
from evaluate.provenance import Provenance
from evaluate.result import Estimate
from evaluate.result_io import evaluation_from
from synth.dp.ledger import Ledger, open_ledger
from synth.errors import BadInput
from synth.schema import Schema
from synth.schema_file import write_schema
from tests.extras.related import shops, visits
from understudy.bundle.verification import Demand, verify
from understudy.console import Console
from understudy.extras.related import run as running
from understudy.extras.related.job import laid_out, make_plan, read_related
from understudy.extras.related.run import RelatedOutcome, run_related
from understudy.extras.related.units import bounded
from understudy.extras.related.walk import lay_out

N, UNITS, EPSILON = 600, 20_000, 2.0
MST = {"n_bins": 8, "n_iterations": 100}  # parameters of a quick fit
LENIENT = {
    "name": "lenient", "version": 1, "audience": "tests",
    "rules": [
        {"measure": "validity.rows", "limit": 0.5, "why": "any table of ours is valid"},
        {"measure": "privacy.copies.people", "limit": 0.5, "why": "no table of ours is a copy"},
    ],
}  # fmt: skip
CLINIC = {"patients": "who", "visits": {"foreign": {"who": "patients"}}}


def declared(dataset: str | None = None) -> dict[str, Schema]:
    own = shops.schemas(UNITS)
    return {**own, "customer": own["customer"].model_copy(update={"dataset": dataset})}


def write(
    folder: Path, tables: Mapping[str, pd.DataFrame], keys: Mapping[str, Any], schemas: Mapping[str, Schema], **job: Any
) -> Path:
    listed = {}
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
        own = keys[name] if isinstance(keys[name], dict) else {"primary": keys[name]}
        listed[name] = {"path": f"{name}.csv", **own, **({} if name in schemas else {"keep": True})}
        if name in schemas:
            write_schema(schemas[name], folder / f"{name}.toml")
            listed[name]["schema"] = f"{name}.toml"
    (folder / "policy.toml").write_text(tomli_w.dumps(LENIENT))
    content = {
        "policy": "policy.toml", "tables": listed, "split": {"holdout_share": 0.4}, "generators": {"trees": {}},
        "orphans": "drop", **job,
        "evaluation": {"measures": ["validity", "privacy.copies"], "audit": False, **job.get("evaluation", {})},
    }  # fmt: skip
    (folder / "job.toml").write_text(tomli_w.dumps(content))
    return folder / "job.toml"


def shop(folder: Path, n: int = N, **job: Any) -> Path:
    return write(folder, shops.shop(n), shops.KEYS, declared("shop"), **job)


def plan(job: Path) -> Any:
    return make_plan(job, job.parent / "out", restart=False, workers=None, executor=None)


def ran(job: Path) -> RelatedOutcome:
    return run_related(plan(job), Console(quiet=True))


def opened(folder: Path, epsilon: float) -> Ledger:
    ledger = open_ledger(folder / "ledger.db")
    ledger.open("shop", unit="customer_id", epsilon=epsilon, n_units=UNITS)
    return ledger


@pytest.fixture(autouse=True)
def _own_key(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_KEY_FILE", str(tmp_path_factory.getbasetemp() / "fingerprint.key"))
    monkeypatch.delenv("UNDERSTUDY_LEDGER", raising=False)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, RelatedOutcome, Ledger]]:
    """One run with a private `mst`, which was cut short before its report and taken up again."""
    folder = tmp_path_factory.mktemp("related")
    job = shop(folder, release="mst", ledger={"url": "ledger.db"}, generators={"mst": {**MST, "epsilon": EPSILON}})
    ledger = opened(folder, 3.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNDERSTUDY_KEY_FILE", str(folder / "fingerprint.key"))
        with patch.context() as cut:
            cut.setattr(running, "write_page", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                ran(job)
        yield folder, ran(job), ledger


def test_tables_are_as_the_real_ones_and_one_seal_is_on_all_of_them(finished: Any) -> None:
    folder, outcome, _ = finished
    real = shops.shop(N)
    for name, table in real.items():
        for place in (folder / "out" / "synthetic" / "mst", folder / "out" / "to-hand-on" / name):
            assert list(pd.read_csv(place / f"{name}.csv").columns) == list(table.columns)
    assert set(outcome.related["mst"].keys.values()) == {1.0}
    assert set(outcome.related["mst"].real_keys.values()) == {0.0}
    verified = verify(folder / "out", Demand())
    assert verified.is_sound and verified.public is not None
    assert verified.manifest is not None and verified.manifest.about.verdict == outcome.verdict("mst").verdict
    (folder / "out" / "tables.json").write_text("{}")
    assert not verify(folder / "out", Demand()).is_sound


def test_a_run_that_was_cut_short_pays_once_for_all_tables(finished: Any) -> None:
    _, outcome, ledger = finished
    assert [entry.kind for entry in ledger.history()] == ["opened", "reserved", "used", "committed"]
    (holding,) = ledger.holdings()
    own = outcome.evaluations["line"].candidates[0].statement
    assert own is not None and own.ledger is not None
    assert holding.spent_epsilon == pytest.approx(own.ledger.epsilon)


def test_the_epsilon_of_the_job_is_that_of_all_tables_wherever_it_is_quoted(finished: Any) -> None:
    folder, outcome, _ = finished
    epsilon = outcome.plan.releases["mst"].schedule.epsilon
    assert 0.95 * EPSILON < epsilon <= EPSILON
    for name in ("customer", "order", "line", "ticket"):
        evaluation = evaluation_from((folder / "out" / "tables" / name / "evaluation.json").read_text())
        claims = claims_of(evaluation, evaluation.candidates[0])
        assert claims is not None and claims.counted.epsilon == pytest.approx(epsilon)
        assert evaluation.schema.entity == evaluation.candidates[0].statement.unit == "customer_id"  # type: ignore[union-attr]
        whats = {event.what.partition(":")[0] for event in evaluation.candidates[0].statement.events}  # type: ignore[union-attr]
        assert whats == {"customer", "order", "line", "ticket"}
    assert outcome.content()["candidates"]["mst"]["epsilon"] == epsilon


def test_the_verdict_is_the_worst_of_tables_units_and_keys(finished: Any) -> None:
    _, outcome, _ = finished
    related, verdicts = outcome.related["mst"], outcome.verdicts

    def together(**changes: Any) -> str:
        known = {"evaluations": outcome.evaluations, "verdicts": verdicts, "related": related, **changes}
        return running._together(outcome.plan, "mst", **known).verdict

    def of_line(verdict: str) -> Any:
        return {**verdicts, "line": tuple(replace(each, verdict=verdict) for each in verdicts["line"])}

    assert (together(), outcome.exit_code) == ("PASS", 0)
    assert [together(verdicts=of_line(each)) for each in ("FAIL", "INCONCLUSIVE")] == ["FAIL", "INCONCLUSIVE"]
    assert together(related=replace(related, keys={**related.keys, "line: order_id -> order": 0.99})) == "FAIL"
    assert together(related=replace(related, real_keys={"order: order_id": 0.2})) == "FAIL"
    left = {name: each for name, each in verdicts.items() if name != "ticket"}
    assert together(evaluations={n: outcome.evaluations[n] for n in left}, verdicts=left) == "INCONCLUSIVE"
    rule = {"measure": "privacy.membership.auc", "limit": 0.6, "why": "nobody is to be told from others"}
    policy = type(outcome.plan.inputs.policy).model_validate({**LENIENT, "rules": [rule]})
    strict = replace(outcome.plan, inputs=replace(outcome.plan.inputs, policy=policy))
    found = Estimate("privacy.membership.auc", 0.9, 80, "lower", low=0.8, high=0.95)
    judged = running._together(strict, "mst", outcome.evaluations, verdicts, replace(related, attack=(found,)))
    # The guarantee limits any attack: what is measured beyond it is told, and the proof stands.
    assert any(f.reason.startswith("whole units: ") for f in judged.findings)
    bare = {
        name: replace(
            each, provenance=Provenance(), candidates=tuple(replace(c, statement=None) for c in each.candidates)
        )
        for name, each in outcome.evaluations.items()
    }
    assert running._together(strict, "mst", bare, verdicts, replace(related, attack=(found,))).verdict == "FAIL"


def test_a_unit_is_on_one_side_in_all_tables(tmp_path: Path) -> None:
    made = plan(shop(tmp_path))

    class Nothing:
        warnings = ()

        def claim(self, names: Any) -> None: ...

    sides = running._sides(made, Nothing(), Console(quiet=True))  # type: ignore[arg-type]
    orders = {side: set(getattr(sides, side)["order"]["order_id"]) for side in ("train", "holdout")}
    for side, own in orders.items():
        tables = getattr(sides, side)
        assert set(tables["order"]["customer_id"]) <= set(tables["customer"]["customer_id"])
        assert set(tables["line"]["order_id"]) <= own
        assert len(tables["line"]) > 0
    assert len(sides.train["line"]) + len(sides.holdout["line"]) == len(shops.shop(N)["line"])


def test_what_a_private_fit_draws_is_known_without_a_row(tmp_path: Path) -> None:
    made = plan(shop(tmp_path, generators={"mst": {**MST, "epsilon": EPSILON}}))
    tables = shops.shop(N)
    rows, parents = bounded(tables, made.inputs.keys, ("product",), "customer")
    full = lay_out(rows, parents, made.inputs.keys, ("product",), made.inputs.schemas, private=True)
    bare = laid_out(made.inputs, made.schemas, made.kept)
    assert (full.schemas, full.steps) == (bare.schemas, bare.steps)


def test_a_total_that_does_not_admit_all_tables_admits_none(tmp_path: Path) -> None:
    job = shop(tmp_path, ledger={"url": "ledger.db"}, generators={"mst": {**MST, "epsilon": EPSILON}})
    ledger = opened(tmp_path, 1.6)
    for name in ("customer", "order", "line", "ticket"):
        (tmp_path / f"{name}.csv").write_bytes(b"")  # no row is read
    with pytest.raises(BadInput, match="would bring epsilon"):
        plan(job)
    assert [entry.kind for entry in ledger.history()] == ["opened"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"generators": {"trees": {}, "mst": {"epsilon": [1.0, 2.0]}}}, "a sweep is of one table"),
        ({"released_numbers": {"epsilon": 1.0}, "release": "trees"}, r"\[released_numbers\] is of one table"),
        ({"evaluation": {"target": "about"}}, "set it in that one's schema"),
        ({"workers": 2}, "workers is of one table"),
        ({"unit": "order", "generators": {"mst": {"epsilon": 1.0}}}, "below none; leave it out"),
    ],
)
def test_a_job_that_cannot_be_is_refused_in_a_sentence_before_a_row_is_read(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    job = shop(tmp_path, 20, **changes)
    for name in ("customer", "order", "line", "ticket"):
        (tmp_path / f"{name}.csv").write_bytes(b"")
    with pytest.raises(BadInput, match=message):
        plan(job)
    assert not (tmp_path / "out").exists()


def test_a_table_below_no_unit_is_drawn_and_keeps_the_verdict_open(tmp_path: Path) -> None:
    tables, keys = shops.shop(N), dict(shops.KEYS)
    shelves = pd.DataFrame({"shelf": np.arange(60), "width": np.arange(60) % 7})
    own = {**shops.schemas(N), "shelf": Schema.model_validate({
        "status": "declared", "columns": {"shelf": {"kind": "identifier", "bounds": (0, 99)},
                                          "width": {"kind": "integer", "bounds": (0, 9)}}})}  # fmt: skip
    job = write(
        tmp_path, {**tables, "shelf": shelves}, {**keys, "shelf": "shelf"}, own, unit="customer", release="trees"
    )
    outcome = ran(job)
    assert (outcome.verdict("trees").verdict, outcome.exit_code) == ("INCONCLUSIVE", 3)
    assert outcome.verdict_of("shelf", "trees") == "not measured"


def test_the_job_that_the_manual_shows_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "related-tables.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    for name, block in zip(("patients.schema.toml", "visits.schema.toml", "job.toml"), shown, strict=True):
        (tmp_path / name).write_text(block)
    asked = read_related(tmp_path / "job.toml")
    assert (asked.unit, asked.entity) == ("patients", "patient")


def test_the_command_ends_with_the_worst_verdict_of_histories_below_their_parents(workspace: Any) -> None:
    patients, rows = visits.pair(N)
    schemas = dict(zip(("patients", "visits"), visits.schemas(), strict=True))
    job = write(workspace.folder, {"patients": patients, "visits": rows}, CLINIC, schemas, release="trees")
    strict = {**LENIENT, "rules": [{**LENIENT["rules"][0], "limit": 1.5}]}  # type: ignore[index]
    (workspace.folder / "policy.toml").write_text(tomli_w.dumps(strict))
    out = workspace.folder / "out"
    done = workspace.run("run", job, "--out", out)
    assert done.exit_code == 1, done.stderr
    assert "trees: FAIL under policy lenient, the worst of all tables" in done.stdout
    told = json.loads((out / "tables.json").read_text())["candidates"]["trees"]
    assert (told["guarantee"], told["epsilon"], set(told["keys"].values())) == ("no formal guarantee", None, {1.0})
    drawn = pd.read_csv(out / "synthetic" / "trees" / "visits.csv", parse_dates=["day"])
    assert drawn.groupby("who", sort=False)["day"].apply(lambda days: days.is_monotonic_increasing).all()
    assert workspace.run("verify", out).exit_code == 0
