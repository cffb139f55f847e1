"""The membership attack on those who are most exposed: isolated rows, rare ones, and the groups of sensitive columns.

The attacker is that of `evaluate.privacy.membership` and picks whom to attack first: the most isolated targets, and as
many with the rarest values. Either are a twentieth of the targets, a tenth of few. Where the schema names
quasi-identifiers, their rarest combination counts in place of values. People are isolated in several ways, and a leak
of those who are so in one of them must show:

* far from every row of the attacker's own sample, by ranks;
* a number far beyond all others, which ranks do not see;
* many columns that are unusual at once.

Whom the attacker picks depends on the target and on their own sample alone, so that members and non-members are picked
alike. A leak of outliers, which an average over all people hides, shows here, the clearer the fewer are picked beside
them. Groups of sensitive columns are attacked one by one; of these the one that comes out worst is named.

Source: Meeus et al. 2023, "Achilles' Heels: Vulnerable Record Identification in Synthetic Data Publishing",
arXiv:2306.10308; Kulynych et al. 2022, arXiv:1906.00389 (disparate vulnerability).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from evaluate.fairness.groups import Groups
from evaluate.metrics import Metric
from evaluate.neighbors import SpaceRows, share_of, space_of
from evaluate.neighbors.space import MISSING
from evaluate.privacy.membership import AREA, MIN_TARGETS, NOTHING, Both, area_estimate, parts_for, rate_estimate
from evaluate.privacy.membership_attacks import TargetNeighborhoods, scored, targets_of
from evaluate.result import Estimate, Failure
from evaluate.tables import MetricResult, Tables

_SUBSET = "it attacks few rows, so that its limit would depend on how many; name 'privacy.membership.auc'"
METRICS = (
    Metric("privacy.vulnerable.isolated.auc", "lower", "Membership of isolated people, AUC",
           "The membership attack on the people who are most isolated: a twentieth to a tenth of those attacked.",
           describes=_SUBSET, attack="always", criteria=("identifiability",), bounded=True),
    Metric("privacy.vulnerable.isolated.tpr_at_0.01", "lower", "Isolated members found at 1% false alarms",
           "Members among them that are found; chance is 1%.", describes=_SUBSET, attack="always",
           criteria=("identifiability",), bounded=True),
    Metric("privacy.vulnerable.rare.auc", "lower", "Membership of people with rare values, AUC",
           "The membership attack on the people whose values are rarest: a twentieth to a tenth of those attacked.",
           describes=_SUBSET, attack="always", criteria=("identifiability",), bounded=True),
    Metric("privacy.vulnerable.rare.tpr_at_0.01", "lower", "Members with rare values found at 1% false alarms",
           "Members among them that are found; chance is 1%.", describes=_SUBSET, attack="always",
           criteria=("identifiability",), bounded=True),
    Metric("privacy.vulnerable.group.auc", "lower", "Membership in the worst group, AUC",
           "The membership attack in the group of a sensitive column it is best at.", describes=_SUBSET,
           attack="always", criteria=("identifiability",), bounded=True),
)  # fmt: skip

SHARES = (0.05, 0.1)
"""Of the targets, how many count as the most exposed: more of fewer, so that a rate among the controls can be seen."""
N_CONTROLS = 120  # Controls that should be among the most exposed, as far as these shares allow
MIN_GROUP = 25  # Members, and controls, that a group needs for an area under the curve with an interval
N_BINS = 10  # Ranks of a number are told apart by tenths where combinations are counted
RATE = 0.01
NAMES = tuple(f"privacy.vulnerable.{who}.{n}" for who in ("isolated", "rare") for n in ("auc", f"tpr_at_{RATE:g}"))
TEXTS = {"isolated": "the targets that are most isolated", "rare": "the targets with the rarest values"}


@dataclass(frozen=True)
class _Group:
    """Some of the targets. *Sensitive*."""

    text: str
    among: Both


def measure(tables: Tables) -> MetricResult:
    """AUC and true positive rates among the most exposed, and the AUC in the group of each sensitive column's worst.
    Estimates: `privacy.vulnerable.isolated.auc`, `privacy.vulnerable.isolated.tpr_at_0.01`, the same of `rare`, and by
    sensitive column `privacy.vulnerable.group.auc`.
    """
    if not tables.schema.learned:
        return MetricResult(failures=tuple(Failure(name, "skipped", NOTHING) for name in NAMES))
    sides, of = targets_of(tables), scored(tables)
    chosen = {"isolated": _isolated(sides, tables), "rare": _rare(sides, tables)}
    found: list[Estimate | Failure] = []
    drawn: list[dict[str, Any]] = []
    for name, among in chosen.items():
        found += _exposed(name, among, of)
        drawn += _drawn(TEXTS[name], found[-2])
    for column in (name for name in tables.schema.sensitive if name in tables.schema.learned):
        by_group = _of_groups(column, _groups(column, sides, tables), of)
        found.append(by_group[0][1] if by_group else _unmeasured(column))
        drawn += [one for text, group in by_group for one in _drawn(f"{column}: {text}", group)]
    return MetricResult(
        estimates=tuple(one for one in found if isinstance(one, Estimate)),
        failures=tuple(one for one in found if isinstance(one, Failure)),
        figures={"vulnerable": drawn},
    )


def _isolated(sides: tuple[TargetNeighborhoods, TargetNeighborhoods], tables: Tables) -> Both:
    """The targets that are most isolated in one of three ways."""
    frames = (tables.train, tables.control)
    ways = (
        [side.fresh.distances.mean(axis=1) for side in sides],
        [_far_out(f.iloc[side.positions], tables) for f, side in zip(frames, sides, strict=True)],
        [_unusual(side, space_of(tables).fresh) for side in sides],
    )
    n = len(sides[0])
    ranks = [stats.rankdata(np.concatenate([s.surest(of) for s, of in zip(sides, way, strict=True)])) for way in ways]
    most = np.max(ranks, axis=0)
    return _highest(most[:n], most[n:])


def _far_out(rows: pd.DataFrame, tables: Tables) -> np.ndarray:
    """Largest distance of a number from its median, in spans of most rows; shape (len(rows),)."""
    found = np.zeros(len(rows))
    for name in tables.schema.learned:
        column = tables.schema.columns[name]
        if column.is_categorical:
            continue
        known = column.positions(tables.fresh[name])
        known = known[~np.isnan(known)]
        if len(known):
            low, middle, high = np.quantile(known, (0.05, 0.5, 0.95))
            span = high - low or float(np.ptp(known)) or 1.0
            places = column.positions(rows[name])
            found = np.maximum(found, np.nan_to_num(np.abs(places - middle) / span))
    return found


def _unusual(side: TargetNeighborhoods, known: SpaceRows) -> np.ndarray:
    """Rarity of all columns together, in nats."""
    found = np.zeros(len(side.positions))
    for name, values in side.rows.columns.items():
        share = share_of(values, known.columns[name])
        if values.dtype.kind != "i":
            outside = 2 * np.minimum(values, 1 - values)
            share = np.where(values == MISSING, share, np.maximum(outside, 1 / max(len(known), 1)))
        found -= np.log(share)
    return found


def _rare(sides: tuple[TargetNeighborhoods, TargetNeighborhoods], tables: Tables) -> Both:
    """The targets whose combination of quasi-identifiers, or else whose rarest value, few of the attacker's rows have.
    Among those that are equally rare, the more isolated ones come first.
    """
    quasi = [name for name in tables.schema.quasi_identifiers if name in tables.schema.learned]
    known = {name: _binned(values) for name, values in space_of(tables).fresh.columns.items()}
    combinations = [quasi] if quasi else [[name] for name in known]
    rarity = []
    for side in sides:
        codes = {name: _binned(values) for name, values in side.rows.columns.items()}
        counts = [_counts([codes[n] for n in names], [known[n] for n in names]) for names in combinations]
        far = side.fresh.distances.mean(axis=1)
        rarity.append(side.surest(far / (1 + far) - np.min(counts, axis=0) if counts else far))
    return _highest(rarity[0], rarity[1])


def _binned(values: np.ndarray) -> np.ndarray:
    """Codes of categories, or tenths of ranks; int64."""
    return values.astype(np.int64) if values.dtype.kind == "i" else np.floor(values * N_BINS).astype(np.int64)


def _counts(codes: Sequence[np.ndarray], known: Sequence[np.ndarray]) -> np.ndarray:
    """Counts of known rows with each row's combination of codes; shape (n,)."""
    n = len(codes[0])
    both = pd.DataFrame({i: np.concatenate(pair) for i, pair in enumerate(zip(codes, known, strict=True))})
    cells = both.groupby(list(both.columns), sort=False).ngroup().to_numpy()
    return np.asarray(np.bincount(cells[n:], minlength=int(cells.max(initial=0)) + 1)[cells[:n]])


def _highest(members: np.ndarray, controls: np.ndarray) -> Both:
    """Mask of the highest targets of both sides together; of equal ones either all or no one."""
    both = np.concatenate([members, controls])
    if not len(both):
        return members > 0, controls > 0
    limit = np.quantile(both, 1 - share_exposed(len(controls)), method="higher")
    return members >= limit, controls >= limit


def share_exposed(n_controls: int) -> float:
    """Of the targets, how many count as the most exposed.

    >>> share_exposed(500), share_exposed(10_000)
    (0.1, 0.05)
    """
    return float(np.clip(N_CONTROLS / max(n_controls, 1), *SHARES))


def _exposed(name: str, among: Both, of: Mapping[str, Both]) -> list[Estimate | Failure]:
    """The area under the curve, and the true positive rate, among the most exposed."""
    auc, rate = (f"privacy.vulnerable.{name}.{number}" for number in ("auc", f"tpr_at_{RATE:g}"))
    if _too_few(among, MIN_TARGETS):
        message = f"fewer than {MIN_TARGETS} of the most exposed rows are on either side; give a larger holdout"
        return [Failure(auc, "skipped", message), Failure(rate, "skipped", message)]
    parts = [part.scores(of, among) for part in parts_for(AREA, of)]
    note = f"the membership attack on {TEXTS[name]}; 0.5 tells nothing"
    return [area_estimate(auc, parts, note=note), rate_estimate(rate, RATE, of, among)]


def _groups(column: str, sides: tuple[TargetNeighborhoods, TargetNeighborhoods], tables: Tables) -> list[_Group]:
    """The groups of a sensitive column that are large enough on both sides."""
    groups = Groups.of(column, tables.train, tables.schema)
    frames = (tables.train, tables.control)
    codes = [
        groups.codes(frame.iloc[side.positions[side.first]].reset_index(drop=True), tables.schema)
        for frame, side in zip(frames, sides, strict=True)
    ]
    found = [_Group(label, (codes[0] == i, codes[1] == i)) for i, label in enumerate(groups.labels)]
    return [group for group in found if not _too_few(group.among, MIN_GROUP)]


def _of_groups(column: str, groups: list[_Group], of: Mapping[str, Both]) -> list[tuple[str, Estimate]]:
    """The area under the curve in each group, the worst first, all at a level that allows for the choice."""
    if not groups:
        return []
    halves, found = parts_for(AREA, of), []
    for group in groups:
        parts = [part.scores(of, group.among) for part in halves]
        note = f"the membership attack on the group that comes out worst of {len(groups)}: {group.text}"
        name, among = "privacy.vulnerable.group.auc", len(groups)
        found.append((group.text, area_estimate(name, parts, note=note, subject=(column,), n_comparisons=among)))
    return sorted(found, key=lambda pair: -pair[1].value)


def _drawn(text: str, found: Estimate | Failure) -> list[dict[str, Any]]:
    """A line of what the report shows, as plain data; nothing where nothing was measured."""
    if isinstance(found, Failure):
        return []
    return [{"group": text, "n": found.n, "auc": [found.value, found.low, found.high]}]


def _too_few(among: Both, least: int) -> bool:
    return any(int(side[half::2].sum()) < max(2, least // 2) for side in among for half in (0, 1))


def _unmeasured(column: str) -> Failure:
    message = f"no group has {MIN_GROUP} attacked rows on either side; give larger tables"
    return Failure("privacy.vulnerable.group.auc", "skipped", message, (column,))
