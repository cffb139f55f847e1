"""Attribute inference: who learns a person's secret from the synthetic table?

The attacker knows the synthetic table and of each target all columns but one, and wants that one. They look up the
synthetic row that is nearest by what they know, and take its value. They win where they find the values of people in
the training table more often than those of people who are not in it: the latter is what anybody learns from any good
table of this population. Every column plays the secret in turn. Where the schema names quasi-identifiers, a weaker
attacker who knows only these is drawn beside.

For sensitive columns, and the target, a model trained on the synthetic rows guesses as well (`models`).

Source: Giomi et al. 2023, "A Unified Framework for Quantifying Privacy Risk in Synthetic Data", arXiv:2211.10459.
DEVIATES: the attacker knows all other columns, the most that anybody can, not a few that are chosen; the distance is
Gower's by ranks, not by ranges, which one outlier stretches; and a missing value is a value to be found.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluate.neighbors import gower_nearest, gower_without_each, space_of
from evaluate.privacy.experiment import Experiment, largest, standing_out
from evaluate.privacy.inference.models import MODEL, model_attacks
from evaluate.privacy.inference.secrets import MAX_POOL, Attacked, Secret, secret_of, secrets_among
from evaluate.result import Estimate, Failure
from evaluate.tables import Measurement, Tables

WORST, COLUMN = "privacy.inference", "privacy.inference.column"
MIN_TARGETS = 10
MIN_RARE = 20
"""Attempts on rare values, of members and of controls, that make a rate."""


@dataclass(frozen=True)
class _Tried:
    """What came of the attack on one column.

    Attributes:
        column: its name.
        by_all: by all other columns.
        by_quasi: by the quasi-identifiers alone; none where there are none, or the column is one.
        rare: by all others, on targets with rare values; none where there are too few.
        majority: success of guessing the most frequent value, or the median, of the synthetic table on members.
    """

    column: str
    by_all: Experiment
    by_quasi: Experiment | None
    rare: Experiment | None
    majority: float


def measure(tables: Tables) -> Measurement:
    """The advantage of the attack on each column, and on the one that stands out most.

    Estimates: `privacy.inference`, `privacy.inference.column`, `privacy.inference.model`.
    """
    attacked, secrets = Attacked.of(tables), secrets_among(tables)
    why = _nothing(tables, attacked, secrets)
    if why:
        return Measurement(failures=tuple(Failure(name, "skipped", why) for name in (WORST, COLUMN, MODEL)))
    tried = _attack(tables, attacked, secrets)
    models = model_attacks(tables, attacked, secrets)
    n = len(tried)
    columns = [one.by_all.estimate(COLUMN, note=_rates(one), subject=(one.column,), n_comparisons=n) for one in tried]
    return Measurement(
        estimates=(_worst(tried, columns, len(attacked.pool) < len(tables.synthetic)), *columns, *models.estimates),
        failures=models.failures,
        figures={"inference": {"columns": [_drawn(one, n) for one in tried], "models": list(models.drawn)}},
    )


def _nothing(tables: Tables, attacked: Attacked, secrets: Sequence[str]) -> str:
    """Why there is nothing to attack; empty where there is."""
    if len(tables.schema.learned) < 2:
        return "the table has one column, so that an attacker knows nothing to infer it from"
    if not secrets:
        return "no column varies, so that there is no secret"
    if min(len(attacked.members), len(attacked.controls)) < MIN_TARGETS:
        return f"an attack needs at least {MIN_TARGETS} members and as many non-members; give a larger holdout"
    return ""


def _attack(tables: Tables, attacked: Attacked, secrets: Sequence[str]) -> list[_Tried]:
    space = space_of(tables)
    targets = space.train.take(attacked.members).joined(space.control.take(attacked.controls))
    pool = space.synthetic.take(attacked.pool)
    by_all = gower_without_each(targets, pool, secrets)
    alone = gower_without_each(targets, space.fresh.take(attacked.own), secrets)
    known = [name for name in tables.schema.quasi_identifiers if name in tables.schema.learned]
    by_quasi = gower_nearest(targets, pool, known)[:, 0] if known else None
    found = []
    for name in secrets:
        secret = secret_of(name, tables, attacked)
        quasi = None if by_quasi is None or name in known else _experiment(secret, secret.pool[by_quasi])
        blind = _experiment(secret, secret.fresh[alone[name]])
        full = _experiment(secret, secret.pool[by_all[name]], baseline=float(blind.attack.mean()))
        usual = secret.found(np.full(len(secret.members), secret.usual), secret.members)
        found.append(_Tried(name, full, quasi, _among_rare(secret, full), float(usual.mean())))
    return found


def _experiment(secret: Secret, guesses: np.ndarray, baseline: float | None = None) -> Experiment:
    """Guesses of members' values and then of controls'."""
    n = len(secret.members)
    hits = secret.found(guesses[:n], secret.members), secret.found(guesses[n:], secret.controls)
    return Experiment(*hits, baseline)


def _among_rare(secret: Secret, full: Experiment) -> Experiment | None:
    """The same attempts where the truth is rare."""
    attack, control = full.attack[secret.is_rare(secret.members)], full.control[secret.is_rare(secret.controls)]
    return Experiment(attack, control) if min(len(attack), len(control)) >= MIN_RARE else None


def _worst(tried: Sequence[_Tried], columns: Sequence[Estimate], is_sampled: bool) -> Estimate:
    """The column that stands out most from chance; the interval is that of the largest advantage of any column."""
    attack = tried[standing_out(columns)]
    note = f"{attack.column!r} stands out most of {len(columns)} columns: {_rates(attack)}"
    if is_sampled:
        note += f"; the attacker looks at {MAX_POOL} of the synthetic rows"
    return largest(WORST, columns, note)


def _rates(one: _Tried) -> str:
    attack, control = float(one.by_all.attack.mean()), float(one.by_all.control.mean())
    return f"its value is found for {attack:.1%} of members and {control:.1%} of controls"


def _drawn(one: _Tried, n: int) -> Mapping[str, Any]:
    """One column as plain data; intervals of advantages allow for all columns, and rare values and others alike."""
    return {
        "column": one.column,
        **one.by_all.figure(),
        "majority": one.majority,
        "advantage": list(one.by_all.advantage(n)),
        "quasi_identifiers": _beside(one.by_quasi, n),
        "rare": _beside(one.rare, n),
    }


def _beside(one: Experiment | None, n: int) -> Mapping[str, Any] | None:
    return None if one is None else {**one.figure(), "advantage": list(one.advantage(n))}
