"""`understudy schema related`: what it writes is a job that can be read."""

import tomllib
from typing import Any

from tests.extras.related.shops import shop
from understudy.extras.related.job import read_related


def test_keys_schemas_and_a_job_are_proposed_together(workspace: Any) -> None:
    for name, table in shop(200).items():
        table.to_csv(workspace.folder / f"{name}.csv", index=False)
    tables = [workspace.folder / f"{name}.csv" for name in ("customer", "order", "line", "ticket")]
    out = workspace.folder / "shop"
    done = workspace.run("schema", "related", *tables, "--keep", workspace.folder / "product.csv", "--out", out)
    assert done.exit_code == 0, done.stderr
    job = tomllib.loads((out / "job.toml").read_text())["tables"]
    assert job["line"]["foreign"] == {"order_id": "order", "product_id": "product"}
    assert (job["line"]["number"], job["product"]["keep"]) == ("line_no", True)
    asked = read_related(out / "job.toml")
    assert asked.unit == "customer"
    assert {"customer_id", "order_id"} <= {*asked.schemas["ticket"].kept}
    assert "customer_id -> customer" in done.stdout
