"""Relations within groups: against their definition, and what is turned round in a part of the rows alone."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from evaluate.fidelity import dependence
from evaluate.fidelity.encoded import EncodedSamples
from evaluate.fidelity.samples import Samples
from evaluate.gate.policy import load_policy, shipped
from evaluate.result import Estimate
from evaluate.tables import Tables
from synth.schema import build_schema

SCHEMA = build_schema(
    {
        "status": "declared",
        "target": "y",
        "columns": {
            "group": {"kind": "categorical", "categories": list("abc")},
            "x": {"kind": "real", "bounds": [-9, 9]},
            "z": {"kind": "real", "bounds": [-9, 9]},
            "free": {"kind": "real", "bounds": [-9, 9]},
            "y": {"kind": "boolean"},
        },
    }
)
SHARES = {"a": 0.6, "b": 0.25, "c": 0.15}
LIMITS = {name: next(r for r in load_policy(name).rules if r.measure == dependence.WITHIN) for name in shipped()}


def rows(n: int, rng: np.random.Generator) -> pd.DataFrame:
    x, noise, free = rng.standard_normal((3, n))
    frame = pd.DataFrame({"group": rng.choice(list(SHARES), n, p=list(SHARES.values())), "x": x, "free": free})
    return frame.assign(z=x + noise / 2, y=x + rng.standard_normal(n) > 0)[list(SCHEMA.columns)]


def turned(frame: pd.DataFrame, group: str) -> pd.DataFrame:
    """The rows with `z` in the opposite order in one group."""
    inside = (frame["group"] == group).to_numpy()
    z, order = frame["z"].to_numpy(copy=True), np.flatnonzero(inside)[np.argsort(frame["z"].to_numpy()[inside])]
    z[order] = z[order[::-1]].copy()
    return frame.assign(z=z)


def coded(synthetic: pd.DataFrame, seed: int = 0, n: int = 2_000) -> EncodedSamples:
    rng = np.random.default_rng([seed, 3])
    tables = Tables.prepare(rows(n, rng), rows(n // 2, rng), synthetic, SCHEMA, seed=seed)
    return EncodedSamples.of(tables, Samples.draw(tables).whole(), together=4)


def measured(synthetic: pd.DataFrame, seed: int = 0) -> Estimate:
    result = dependence.within_groups(coded(synthetic, seed), SCHEMA.target)
    assert isinstance(result, Estimate)
    return result


def test_a_relation_turned_round_in_one_group_breaks_the_rule_and_on_average_it_is_there() -> None:
    honest, group = rows(2_000, np.random.default_rng(1)), "c"
    bad = turned(honest, group)
    result = measured(bad)
    assert all(rule.fails_beyond is not None and result.low > rule.fails_beyond for rule in LIMITS.values()), result
    assert f"'z' where 'group' is '{group}'" in result.note
    (overall, _) = dependence.over_all_rows(coded(bad))
    assert isinstance(overall, Estimate) and overall.value < 0.9


def test_fresh_rows_keep_the_rule_and_rows_shuffled_in_one_group_are_merely_lost() -> None:
    rng = np.random.default_rng([0, 2])
    honest = rows(2_000, rng)
    fresh = measured(honest)
    assert fresh.high is not None and all(fresh.high < rule.limit for rule in LIMITS.values()), fresh
    inside = (honest["group"] == "b").to_numpy()
    lost = honest.assign(z=np.where(inside, rng.permutation(honest["z"]), honest["z"]))
    result = measured(lost)
    assert result.high is not None and 0.5 < result.value < 1.25
    assert all(result.high < rule.limit for rule in LIMITS.values()), result


def test_two_labels_that_were_exchanged_in_all_rows_break_the_rule(tables_of: Callable[..., Tables]) -> None:
    column = {"kind": "categorical", "categories": list("abcdef")}
    schema = build_schema({"status": "declared", "columns": {"x": {"kind": "real", "bounds": [-9, 9]}, "kind": column}})
    rng = np.random.default_rng(6)

    def made(n: int) -> pd.DataFrame:
        x = rng.standard_normal(n)
        return pd.DataFrame(
            {"x": x, "kind": np.array(list("abcdef"))[np.clip((x + rng.normal(size=n) + 3).astype(int), 0, 5)]}
        )

    train, holdout, fresh = made(2_000), made(1_000), made(2_000)
    swapped = fresh.assign(kind=fresh["kind"].map(lambda kind: {"c": "d", "d": "c"}.get(kind, kind)))
    for rows_, is_swapped in ((fresh, False), (swapped, True)):
        drawn = tables_of(train, holdout, rows_, schema)
        result = dependence.within_groups(EncodedSamples.of(drawn, Samples.draw(drawn).whole(), together=4), None)
        assert isinstance(result, Estimate) and result.low is not None
        assert all((result.low > (rule.fails_beyond or 0.0)) == is_swapped for rule in LIMITS.values()), result
        assert not is_swapped or "of 'kind'" in result.note


def test_it_is_the_squared_difference_of_dependence_over_that_of_train_without_its_noise() -> None:
    codes = coded(turned(rows(2_000, np.random.default_rng(1)), "b"))
    group, z = codes.columns.index("group"), codes.columns.index("z")
    level = next(level for level in dependence._levels(codes, None) if "'b'" in level.words)

    def covariances(table: int, kept: np.ndarray) -> list[np.ndarray]:
        inside = codes.rows[table].codes[kept]
        flags = [
            np.column_stack([
                inside[:, i] <= code if is_number and code < size - 2 else inside[:, i] == code for code in range(size)
            ]).astype(float)
            for i, (size, is_number) in enumerate(zip(codes.sizes, codes.is_number, strict=True))
        ]  # fmt: skip
        flags = [each - each.mean(axis=0) for each in flags]
        others = [i for i in range(len(flags)) if i != z]
        return [flags[i].T @ flags[z] / len(inside) / np.sqrt(scale[i] * scale[z]) for i in others]

    def spread(column: np.ndarray, size: int, is_number: bool) -> float:
        shares = [np.mean(column <= c if is_number and c < size - 2 else column == c) for c in range(size)]
        return float(sum(share * (1 - share) for share in shares))

    kinds = zip(codes.rows[0].codes.T, codes.sizes, codes.is_number, strict=True)
    scale = [spread(column, size, bool(is_number)) for column, size, is_number in kinds]
    result: dict[str, np.ndarray] = {}
    for name, table, members in (("train", 0, True), ("synthetic", 1, True), ("all", 0, False)):
        rows_of = codes.rows[table]
        inside = (rows_of.codes[:, group] == level.codes[0]) | (not members)
        masks = [inside, *(inside & (rows_of.rows.groups != k) for k in range(16))]
        result[name] = np.array([np.concatenate([c.ravel() for c in covariances(table, mask)]) for mask in masks])
    noise = {name: 15 / 16 * ((part[1:] - part[1:].mean(axis=0)) ** 2).sum() for name, part in result.items()}
    apart = ((result["synthetic"][0] - result["train"][0]) ** 2).sum() - noise["synthetic"] - noise["train"]
    own = max((result[name][0] ** 2).sum() - noise[name] for name in ("train", "all"))
    flags = dependence.Flags.of(codes)
    groups, whole = (flags.by_column(flags.squares(part)) for part in (level, None))
    shares = dependence._shares(groups, np.maximum(groups[:, 2], whole[:, 2]))[0]
    assert shares[z, 0, 0] == pytest.approx(apart / own, rel=1e-4)
