"""What a manifest says, which paths it may name, and when a bundle is past its day."""

import json
import os
from datetime import date
from pathlib import Path

import jsonschema
import pytest

from evaluate.gate.policy import build_policy
from tests.understudy.bundle.small_bundle import about, fill
from understudy.bundle.files import BundleError
from understudy.bundle.manifest import MANIFEST, check_path, last_day, seal
from understudy.json_schemas import json_schema


def test_every_manifest_keeps_the_json_schema(signed_bundle: Path) -> None:
    for folder in (signed_bundle, signed_bundle / "to-hand-on"):
        content = json.loads((folder / MANIFEST).read_text())
        jsonschema.validate(content, json_schema("manifest"))
        for key in content:
            less = {name: each for name, each in content.items() if name != key}
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(less, json_schema("manifest"))


def test_a_new_seal_makes_no_evidence_younger() -> None:
    policy = build_policy({"name": "p", "version": 1, "audience": "tests", "valid_days": 90})
    assert last_day(policy, "2026-10-01T00:00:00Z", "2026-11-22T23:59:59Z") == date(2026, 12, 30)
    assert last_day(policy, "2999-10-01T00:00:00Z", "2026-11-22T23:59:59Z") == date(2027, 2, 20)
    with pytest.raises(BundleError, match="counted until 2026-05-01"):
        last_day(policy, "2026-01-31T00:00:00Z", "2026-11-22T23:59:59Z")
    for unknown in (None, 5, "yesterday", "2026-02-31T00:00:00Z"):
        with pytest.raises(BundleError, match="evaluate again"):
            last_day(policy, unknown, "2026-11-22T23:59:59Z")


@pytest.mark.parametrize(
    "path", ["", "/a", "a/", "a/../b", "./a", "a//b", "a\\b", "C:/a", "a\nb", "a\u202eb", "manifest.json", "a/" * 600],
)  # fmt: skip
def test_other_paths_may_not(path: str) -> None:
    with pytest.raises(BundleError, match="path="):
        check_path(path)


@pytest.mark.parametrize("name", [b"new\nline", b"\xff", b"\xe2\x80\xaebidi"])
def test_a_file_whose_name_cannot_travel_is_not_sealed(name: bytes, tmp_path: Path) -> None:
    folder = fill(tmp_path / "b")
    (folder / os.fsdecode(name)).write_text("x")
    with pytest.raises(BundleError, match="name the file otherwise") as refusal:
        seal(folder, about(), None)
    assert str(refusal.value).isprintable()
    assert not (folder / MANIFEST).exists()


def test_links_are_not_sealed_and_empty_folders_go(tmp_path: Path) -> None:
    folder = fill(tmp_path / "b")
    (folder / "empty" / "inner").mkdir(parents=True)
    seal(folder, about(), None)
    assert not (folder / "empty").exists()
    (folder / "link").symlink_to("report.html")
    with pytest.raises(BundleError, match="plain files only"):
        seal(folder, about(), None)
