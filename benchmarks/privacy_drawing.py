"""The privacy benchmark's results as tables for people."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.anonymeter_risk import Risk, risk

OURS = "all measures of privacy, ours"
TARGETED = ("linkability", "inference")
"""Attacks on the same targets on both sides."""
CAPTION = """\
Median [least, most]. CPU s: processor seconds with one thread; s: of the clock with two; times: of the CPU seconds of
ours."""
RISK_CAPTION = """\
Risks by anonymeter's formula, with its interval: of its own counts, of ours of its attacks as we read them, and of our
attacks' rates. advantage: what our attacks gain on training rows, with its own
interval; of singling out, added up over all of them."""


def draw(content: Mapping[str, Any]) -> str:
    """All tables that have a row."""
    parts = []
    if "cost" in content:
        parts += [_lines(list(_cost(content["cost"]))), CAPTION]
    if "large" in content:
        large = content["large"]
        parts.append(
            f"{large['rows']:,} rows, ours: {large['wall_s']:.0f} s with two threads, {large['cpu_s']:.0f} CPU s, "
            f"peak {large['peak_mib']:,.0f} MiB, the table included"
        )
    if "risks" in content:
        parts += [_lines(list(_risks(content["risks"]))), *_agreement(content["risks"]), RISK_CAPTION]
    return "\n\n".join(parts)


def _cost(costs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[Sequence[str]]:
    yield ("what", "CPU s", "s", "peak MiB", "times")
    ours = _middle(costs[OURS], 1, "cpu_s")
    for name, runs in costs.items():
        failure = next((run["failure"] for run in runs if "failure" in run), None)
        if failure is not None:
            yield (name, failure, "", "", "")
            continue
        peak = max(run["peak_mib"] for run in runs)
        times = f"{_middle(runs, 1, 'cpu_s') / ours:.1f}"
        yield (name, _spread(runs, 1, "cpu_s"), _spread(runs, 2, "wall_s"), f"{peak:,.0f}", times)


def _of(runs: Sequence[Mapping[str, Any]], threads: int, what: str) -> list[float]:
    return sorted(run[what] for run in runs if run["threads"] == threads)


def _middle(runs: Sequence[Mapping[str, Any]], threads: int, what: str) -> float:
    return median(_of(runs, threads, what))


def _spread(runs: Sequence[Mapping[str, Any]], threads: int, what: str) -> str:
    values = _of(runs, threads, what)
    return f"{median(values):.1f} [{values[0]:.1f}, {values[-1]:.1f}]"


def _risks(risks: Mapping[str, Mapping[str, Any]]) -> Iterator[Sequence[str]]:
    yield ("table", "attack", "theirs", "as we read it", "our rates", "our advantage")
    for table, sides in risks.items():
        theirs, ours = sides["theirs"].get("attacks", {}), sides["rates"]
        for attack, rewritten in sides["rewritten"]["attacks"].items():
            found_risk = theirs.get(attack, {}).get("risk")
            told = "not measured" if found_risk is None else _shown(Risk(*found_risk))
            mine, advantage = "", ""
            if attack in ours:
                mine = _shown(our_risk(ours[attack]))
                advantage = "{:.3f} [{:.3f}, {:.3f}]".format(*ours[attack]["advantage"])
            yield (table, attack, told, _shown(counted_risk(rewritten)), mine, advantage)


def counted_risk(counts: Mapping[str, float]) -> Risk:
    """The risk of counts of which attack and control have as many attempts."""
    return risk((counts["attack"], counts["n_attacks"]), (counts["control"], counts["n_attacks"]))


def our_risk(rates: Mapping[str, float]) -> Risk:
    """The risk of our rates, each on its own number of attempts."""
    n_attack, n_control = rates["n_attack"], rates["n_control"]
    return risk((rates["attack"] * n_attack, n_attack), (rates["control"] * n_control, n_control))


def _agreement(risks: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """How often the same predicate counts otherwise, and how far counts of the same targets are apart."""
    for table, sides in risks.items():
        if "attacks" not in sides["theirs"]:
            continue
        theirs, mine = sides["theirs"], sides["rewritten"]
        pairs = [
            (each, other)
            for mode, counts in mine["predicates"].items()
            for ours, others in zip(counts, theirs["predicates"][mode], strict=True)
            for each, other in zip(ours, others, strict=True)
        ]
        apart = sum(each != other for each, other in pairs)
        names = [name for name in mine["attacks"] if name.startswith(TARGETED)]
        furthest = max(
            abs(mine["attacks"][name][side] - theirs["attacks"][name][side])
            for name in names
            for side in ("attack", "control")
        )
        n = mine["attacks"][names[0]]["n_attacks"]
        yield (
            f"{table}: {apart} of {len(pairs):,} counts of the same predicates differ; "
            f"successes on the same {n:,} targets differ by {furthest:.0f} at most"
        )
        yield from _corrections(table, mine, theirs)


def _corrections(table: str, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[str]:
    """What the same successes of the control become, and what more different rows of train really give."""
    for mode, factor in theirs.get("factors", {}).items():
        counts = mine["attacks"][mode]
        counted = counts["control_counted"]
        yield (
            f"{table}, {mode}: {counted} successes on the control become {counted * factor:.1f} by anonymeter's "
            f"correction, {counts['control']:.1f} by its definition; {counts['attack']} on train"
        )


def _shown(risk: Risk) -> str:
    return f"{risk.value:.3f} [{risk.low:.3f}, {risk.high:.3f}]"


def _lines(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(
        ["| " + " | ".join(rows[0]) + " |", "|" + " --- |" * len(rows[0])]
        + ["| " + " | ".join(row) + " |" for row in rows[1:]]
    )
