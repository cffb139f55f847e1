"""`understudy generators`: what `auto` fits under a schema and why, from public facts alone."""

from typing import TYPE_CHECKING, Any

import pytest
import tomli_w

from synth.generators.auto import Auto
from synth.schema import build_schema

if TYPE_CHECKING:
    from tests.understudy.conftest import Workspace


def content(n_columns: int, n_units: int, n_levels: int = 8) -> dict[str, Any]:
    levels = [f"v{i}" for i in range(n_levels)]
    columns = {f"c{i}": {"kind": "categorical", "categories": levels} for i in range(n_columns)}
    return {"status": "declared", "n_units": n_units, "columns": columns}


@pytest.mark.parametrize(
    ("schema", "epsilon", "name", "why"),
    [
        (content(1, 5_000), 1.0, "independent", "no pairs to measure"),
        (content(5, 50_000), 1.0, "aim", "of 5 columns a junction tree"),
        (content(10, 50_000), 1.0, "latent_class", "all 45 pairs are measured at once"),
        (content(25, 50_000, 101), 0.1, "aim", "with so many levels few marginals say more"),
        (content(10, 50_000), None, "trees", "nothing is promised"),
    ],
)
def test_the_reason_is_that_of_the_choice(
    workspace: "Workspace", schema: dict[str, Any], epsilon: float | None, name: str, why: str
) -> None:
    path = workspace.folder / "other.toml"
    path.write_text(tomli_w.dumps(schema))
    budget = () if epsilon is None else ("--epsilon", epsilon)
    ran = workspace.run("generators", "--for", path, *budget, "--json")
    assert ran.exit_code == 0, ran.stderr
    assert ran.json["chosen"] == name == Auto(epsilon=epsilon).chosen(build_schema(schema)).name
    assert why in ran.json["reason"]
    assert f"auto: {name}: {ran.json['reason']}" in ran.stderr
    outlooks = [each["generator"] for each in ran.json["outlooks"]]
    assert outlooks == ([] if epsilon is None else ["independent", "mst", "aim", "latent_class"])
