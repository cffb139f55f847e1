"""A run of several sites: one table of all of them, each with its own ledger, report and verdict."""

import json

import pytest

from tests.understudy.sites.conftest import NAMES, SitesHome


@pytest.mark.parametrize("name", ["independent", "mst", "aim"])
def test_sites_make_one_table_and_each_judges_it_on_its_own_rows(sites_home: SitesHome, name: str) -> None:
    sites_home.write({"name": name, "epsilon": 2.0})
    outcome = sites_home.run()
    assert set(outcome.verdicts) == set(NAMES)
    assert set(outcome.verdicts.values()) <= {"PASS", "FAIL", "INCONCLUSIVE"}
    statement = outcome.statement
    assert statement is not None and statement.trust == "sites"
    assert statement.epsilon == pytest.approx(2.0, rel=2e-3) and statement.private
    out = sites_home.home / "out"
    assert {path.name for path in out.iterdir()} == {"synthetic.csv", "model", "statement.json", "sites.json"}
    told = json.loads((out / "sites.json").read_text())
    assert told["n_sums"] == outcome.n_sums and told["dropped"] == []
    for site in NAMES:
        at = sites_home.home / f"at-{site}"
        assert (at / "report.html").is_file()
        assert (at / "synthetic.csv").read_bytes() == (out / "synthetic.csv").read_bytes()
    assert not [path for path in sites_home.home.iterdir() if path.name.startswith(".")]
