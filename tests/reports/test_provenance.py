"""What a report says of the schema: one row for each kept column, and what it may hold."""

from reports.provenance import schema_rows
from synth.schema import build_schema


def test_personal_data_is_shown_by_what_it_is_and_its_locale() -> None:
    columns = {
        "mail": {"kind": "personal", "personal": "email", "locale": "de_DE", "missing": True},
        "id": {"kind": "identifier", "template": "P-###"},
        "gone": {"kind": "text", "drop": True},
    }
    schema = build_schema({"status": "declared", "columns": columns}).model_dump(mode="json")
    mail, key = schema_rows(schema)
    assert (mail.column, mail.kind, mail.holds, mail.missing) == ("mail", "personal", "email, de_DE", True)
    assert key.holds == "P-###"
