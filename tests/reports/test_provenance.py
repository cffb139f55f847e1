"""Where numbers come from: hashes and versions, how often the table was asked, and what the schema may hold."""

from evaluate.result import Evaluation
from reports import render_html
from reports.sections.limitations import NOT_COUNTED, attempts_on
from reports.sections.provenance import Fact, fact_groups, schema_rows, versions_of
from synth.schema import build_schema
from tests.evaluations import evaluation_of


def test_personal_data_is_shown_by_what_it_is_and_its_locale() -> None:
    columns = {
        "mail": {"kind": "personal", "personal": "email", "locale": "de_DE", "missing": True},
        "id": {"kind": "identifier", "template": "P-###"},
        "gone": {"kind": "text", "drop": True},
    }
    schema = build_schema({"status": "declared", "columns": columns})
    mail, key = schema_rows(schema)
    assert (mail.column, mail.kind, mail.holds, mail.missing) == ("mail", "personal", "email, de_DE", True)
    assert key.holds == "P-###"


def test_hashes_of_outputs_of_what_was_asked_and_keyed_ones_of_inputs_stand_apart(evaluation: Evaluation) -> None:
    groups = {group.title: [fact.name for fact in group.facts] for group in fact_groups(evaluation)}
    assert groups["Files that were written"] == ["SHA-256 of synthetic/mst.csv"]
    assert groups["What was asked for"] == ["SHA-256 of the job", "SHA-256 of the schema"]
    assert groups["Real inputs"] == [f"keyed fingerprint of {part}" for part in ("table", "train", "holdout")]
    assert "seed" in groups["The run"]
    assert "real table: train rows" in groups["The real table and its schema"]
    told = [fact.name for group in fact_groups(evaluation) for fact in group.facts]
    assert len(told) == len(set(told))
    assert versions_of(evaluation)[0] == Fact("understudy", "0.1.0")


def test_a_file_of_somebody_else_may_lack_all_of_it() -> None:
    assert versions_of(evaluation_of()) == ()


def test_attempts_that_were_not_counted_are_said_to_be_so() -> None:
    assert attempts_on(evaluation_of()) == NOT_COUNTED


def test_attempts_are_told_with_the_tables_and_the_day_of_the_first() -> None:
    counted = {"evaluations": 4, "tables": 12, "since": "2026-01-31"}
    said = attempts_on(evaluation_of(attempts=counted | {"by_name": None}))
    assert said.startswith("This is evaluation number 4 of this real table")
    assert "12 synthetic tables in all since 2026-01-31" in said
    first = attempts_on(evaluation_of(attempts={"evaluations": 1, "tables": 1, "since": "2026-01-31", "by_name": None}))
    assert first.startswith("This is the first evaluation of this real table that was counted on this machine")
    assert "with one synthetic table since 2026-01-31." in first


def test_the_page_says_how_to_verify_sign_off_and_withdraw(evaluation: Evaluation) -> None:
    page = render_html(evaluation)
    for command in ("verify FOLDER", "withdraw FOLDER", "sign-off"):
        assert f"understudy {command}" in page
    for name in ("manifest.json", "sign-off.json", "withdrawal.json"):
        assert name in page
