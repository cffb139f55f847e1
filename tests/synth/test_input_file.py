"""Files of settings: read once, and only where they are files."""

import os
from pathlib import Path

import pytest

from synth.errors import JobError, SchemaError
from synth.parsing import read_given
from synth.schema_file import read_schema, schema_of
from synth.validation import read_toml


def test_what_was_read_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('status = "declared"\n[columns.a]\nkind = "boolean"\n')
    given = read_given(path, "schema", SchemaError)
    found, sha256 = schema_of(given), given.sha256
    path.write_text('status = "declared"\n[columns.b]\nkind = "boolean"\n')
    assert schema_of(given) == found != read_schema(path)
    assert given.sha256 == sha256
    assert sha256 != read_given(path, "schema", SchemaError).sha256


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "job.toml")
    for path in (tmp_path / "job.toml", Path("/dev/null")):
        with pytest.raises(JobError, match="pipe or a device"):
            read_toml(path, "job", JobError)


@pytest.mark.parametrize("name", ["nothing.toml", ".", "a\0b"])
def test_what_is_no_file_ends_in_one_sentence(name: str, tmp_path: Path) -> None:
    with pytest.raises(JobError, match="the job cannot be read"):
        read_toml(tmp_path / name, "job", JobError)


def test_a_mark_and_line_ends_of_other_systems_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b'\xef\xbb\xbfname = "a"\r\nn = 1\r\n')
    assert read_toml(tmp_path / "a.toml", "job", JobError) == {"name": "a", "n": 1}
