"""A table whose names and incomes are nowhere else, and a run of it: what is read off its rows can be told anywhere."""

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import tomli_w

from synth.dp.ledger import open_ledger
from understudy.run import candidates
from understudy.run import run as running

if TYPE_CHECKING:
    from tests.understudy.conftest import Ran, Workspace

N_ROWS, SEED = 5437, 48_271_601
SCHEMA: dict[str, Any] = {
    "format": 1, "status": "declared", "n_units": 5600, "dataset": "planted", "target": "ill",
    "columns": {
        "name": {"kind": "identifier", "template": "AAAAAAaa####"},
        "age": {"kind": "integer", "bounds": [18, 90]},
        "income": {"kind": "real", "bounds": [0.0, 200.0], "decimals": 10},
        "ill": {"kind": "boolean"},
    },
}  # fmt: skip
POLICY = {
    "name": "lenient", "version": 4, "audience": "tests", "valid_days": 30,
    "rules": [
        {"measure": "validity.rows", "limit": 0.5, "why": "any table of ours is valid"},
        {"measure": "privacy.copies.people", "limit": 0.5, "why": "no table of ours is a copy"},
    ],
}  # fmt: skip
WAIVER = {
    "policy": "lenient", "version": 4, "candidate": "independent", "measure": "validity.rows", "owner": "A. Lind",
    "reason": "known", "until": date(2999, 1, 1),
}  # fmt: skip
TERMS = {"license": "cc-by-4.0", "contact": "dpo@example.org", "prohibited_use": ["Pricing."], "language": "de"}


def planted() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    names = [f"QZEBRAqz{i:04d}" for i in rng.permutation(N_ROWS)]
    income = np.clip(rng.normal(60, 20, N_ROWS), 0, 200).round(10)
    ages = rng.integers(18, 91, N_ROWS)
    return pd.DataFrame({"name": names, "age": ages, "income": income, "ill": rng.random(N_ROWS) < 0.3})


def write_policy(folder: Path, policy: dict[str, Any] = POLICY, waiver: dict[str, Any] = WAIVER) -> None:
    (folder / "lenient.toml").write_text(tomli_w.dumps(policy), encoding="utf-8")
    (folder / "answers.toml").write_text(tomli_w.dumps({"waivers": [waiver]}), encoding="utf-8")


def carry_out(workspace: "Workspace") -> "Ran":
    """The run. Everything that it was given is another while it works, and as it was in the end."""
    folder = workspace.folder
    workspace.write_table(planted())
    (folder / "schema.toml").write_text(tomli_w.dumps(SCHEMA), encoding="utf-8")
    write_policy(folder)
    workspace.write_job(
        name="A | title", seed=SEED, release="independent", policy="lenient.toml", waivers="answers.toml",
        generators={"independent": {"epsilon": 1.0}, "plain": {"generator": "independent", "rows": 300}},
        evaluation={"measures": ["validity", "fidelity.columns", "fidelity.looks", "privacy.copies"]},
        released_numbers={"epsilon": 0.5}, ledger={"url": "ledger.db"}, card=TERMS,
    )  # fmt: skip
    open_ledger(folder / "ledger.db").open("planted", unit="row", epsilon=10.0, n_units=SCHEMA["n_units"])
    assert workspace.run("key", folder / "release.key").exit_code == 0
    kept = {path: path.read_text() for path in folder.glob("*.toml")}

    def make_all(*arguments: Any) -> None:
        for path, text in kept.items():
            path.write_text(f"{text}# edited meanwhile\n".replace("limit = 0.5", "limit = 0.999"))
        candidates.make_all(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "make_all", make_all)
        options = ("--out", folder / "out", "--sign-key", folder / "release.key", "--json")
        ran = workspace.run("run", folder / "job.toml", *options)
    assert all(path.read_text() != text for path, text in kept.items())
    for path, text in kept.items():
        path.write_text(text)
    return ran
