"""The results as text: one table, the ratios to peers, and the two estimations side by side."""

import statistics
from collections.abc import Sequence

from benchmarks.adult_table import DELTA
from benchmarks.runs import Estimation, Results, Run

FIGURES = ("tv1", "tv2", "tv3", "c2st", "tstr", "linear_tstr")
TIMES = ("fit_s", "fit_cpu_s")
HEADS = ("", "epsilon", "runs", "fit s", "fit CPU s", "sample s", "tv1", "tv2", "tv3", "C2ST", "TSTR", "linear TSTR")
CAPTION = """\
Seconds are medians [least, most], noise drawing and (of peers) compiling included, imports not; figures are means
+- half their range. tv: mean total variation of marginals. C2ST: AUC of telling synthetic from train rows, best at 0.5.
TSTR: AUC on test rows of a model trained on synthetic rows."""


def draw(results: Results) -> str:
    """Everything that was measured."""
    parts = [_about(results), _main_table(results), CAPTION, _ratio_table(results), _estimations(results.estimations)]
    return "\n\n".join(part for part in parts if part)


def _about(results: Results) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in results.about["versions"].items())
    lines = [f"Adult, delta {DELTA:g}; {results.about['cores']} cores, Python {results.about['python']}, {versions}"]
    peers = {run.name.split(".")[0]: run.versions for run in results.runs if run.versions}
    lines += [f"{name}: {', '.join(f'{k} {v}' for k, v in found.items())}" for name, found in peers.items() if found]
    return "\n".join(lines)


def _main_table(results: Results) -> str:
    keys = list(dict.fromkeys((run.epsilon, run.name) for run in results.runs))
    keys.sort(key=lambda key: -1.0 if key[0] is None else key[0])
    return _aligned([list(HEADS), *(_row(results.named(name, epsilon)) for epsilon, name in keys)])


def _row(runs: Sequence[Run]) -> list[str]:
    first = runs[0]
    head = [first.name, "-" if first.epsilon is None else f"{first.epsilon:g}"]
    done = [run for run in runs if run.failure is None]
    if not done:
        return [*head, "0", f"not measured: {first.failure}"]
    seconds = [_seconds([getattr(run, name) for run in done]) for name in (*TIMES, "sample_s")]
    figures = [_figure([run.scores[name] for run in done if name in run.scores]) for name in FIGURES]
    return [*head, str(len(done)), *seconds, *figures]


def _seconds(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    middle = f"{statistics.median(known):.2f}"
    return middle if len(known) == 1 else f"{middle} [{min(known):.2f}, {max(known):.2f}]"


def _figure(values: Sequence[float]) -> str:
    if not values:
        return "-"
    mean = f"{statistics.fmean(values):.4f}"
    return mean if len(values) == 1 else f"{mean} +-{(max(values) - min(values)) / 2:.4f}"


def _ratio_table(results: Results) -> str:
    rows = []
    for epsilon, name in dict.fromkeys((run.epsilon, run.name) for run in results.runs if "." in run.name):
        peer, ours = results.named(name, epsilon), results.named(name.split(".")[1], epsilon)
        if ours:
            rows.append([f"{ours[0].name} / {name}", f"{epsilon:g}", *_ratios(ours, peer)])
    if not rows:
        return ""
    heads = ["", "epsilon", "fit s", "fit CPU s", "tv3"]
    return "ours / peer, the same mechanism and bins\n" + _aligned([heads, *rows])


def _ratios(ours: Sequence[Run], peer: Sequence[Run]) -> list[str]:
    done = [[run for run in side if run.failure is None] for side in (ours, peer)]
    failures = [run.failure for run in (*ours, *peer) if run.failure is not None]
    if not all(done):
        return [f"not measured: {failures[0]}"]
    seconds = [
        _ratio([statistics.median(getattr(run, name) or 0.0 for run in side) for side in done]) for name in TIMES
    ]
    return [*seconds, _ratio([statistics.fmean(run.scores["tv3"] for run in side) for side in done])]


def _ratio(sides: Sequence[float]) -> str:
    ours, peer = sides
    return f"{ours / peer:.4f}" if peer > 0 else "-"


def _estimations(found: Sequence[Estimation]) -> str:
    if not found:
        return ""
    heads = ["measurements of", "epsilon", "how many", "ours s", "loss", "mbi s", "compiled s", "loss", "to our loss s"]
    rows = [_estimation_row(one) for one in found]
    notes = [f"{one.name}, ours / mbi seconds: {_estimation_ratios(one)}" for one in found if one.first_s is not None]
    title = "estimation on our measurements, ours beside mbi's (its first call, its second, and float64 until our loss)"
    return "\n".join([title, _aligned([heads, *rows]), *notes])


def _estimation_row(one: Estimation) -> list[str]:
    head = [one.name, f"{one.epsilon:g}", str(one.n_measurements), f"{one.ours_s:.2f}", f"{one.ours_loss:.1f}"]
    if one.first_s is None:
        return [*head, f"mbi not measured: {one.failure}"]
    equal = one.failure or f"not in {one.equal_steps} steps"
    if one.equal_s is not None:
        equal = f"{one.equal_s:.2f} ({one.equal_steps} steps)"
    return [*head, f"{one.first_s:.2f}", f"{one.second_s:.2f}", f"{one.peer_loss:.1f}", equal]


def _estimation_ratios(one: Estimation) -> str:
    assert one.ours_s is not None
    named = {"first": one.first_s, "compiled": one.second_s, "to our loss": one.equal_s}
    return ", ".join(f"{name} {one.ours_s / value:.3f}" for name, value in named.items() if value is not None)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows in columns as wide as their cells; a last cell that stands for the rest of a row takes no part."""
    full = max(len(row) for row in rows)
    widths = [max(len(row[i]) for row in rows if len(row) == full) for i in range(full)]
    widths[0] = max(len(row[0]) for row in rows)
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=False)]
        if len(row) < full:
            cells[-1] = row[-1]
        lines.append("  ".join(cells))
    return "\n".join(lines)
