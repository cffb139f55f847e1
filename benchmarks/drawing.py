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
    lines += [
        f"{name}: {', '.join(f'{k} {v}' for k, v in estimations.items())}"
        for name, estimations in peers.items()
        if estimations
    ]
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


def _estimations(estimations: Sequence[Estimation]) -> str:
    if not estimations:
        return ""
    heads = ["measurements of", "epsilon", "how many", "ours s", "loss", "mbi s", "compiled s", "loss", "to our loss s"]
    rows = [_estimation_row(estimation) for estimation in estimations]
    notes = [
        f"{estimation.name}, ours / mbi seconds: {_estimation_ratios(estimation)}"
        for estimation in estimations
        if estimation.first_s is not None
    ]
    title = "estimation on our measurements, ours beside mbi's (its first call, its second, and float64 until our loss)"
    return "\n".join([title, _aligned([heads, *rows]), *notes])


def _estimation_row(estimation: Estimation) -> list[str]:
    head = [
        estimation.name,
        f"{estimation.epsilon:g}",
        str(estimation.n_measurements),
        f"{estimation.ours_s:.2f}",
        f"{estimation.ours_loss:.1f}",
    ]
    if estimation.first_s is None:
        return [*head, f"mbi not measured: {estimation.failure}"]
    equal = estimation.failure or f"not in {estimation.equal_steps} steps"
    if estimation.equal_s is not None:
        equal = f"{estimation.equal_s:.2f} ({estimation.equal_steps} steps)"
    return [*head, f"{estimation.first_s:.2f}", f"{estimation.second_s:.2f}", f"{estimation.peer_loss:.1f}", equal]


def _estimation_ratios(estimation: Estimation) -> str:
    assert estimation.ours_s is not None
    named = {"first": estimation.first_s, "compiled": estimation.second_s, "to our loss": estimation.equal_s}
    return ", ".join(f"{name} {estimation.ours_s / value:.3f}" for name, value in named.items() if value is not None)


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
