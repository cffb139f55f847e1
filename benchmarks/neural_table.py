"""The neural benchmark's results as tables for people: medians, and the lowest and highest where there are several."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median

from benchmarks.neural_peers import REMARKS
from benchmarks.runs import Results, Run

PAIRS: Mapping[str, str] = {"ctgan.CTGAN": "ctgan", "ctgan.TVAE": "tvae"}
"""The library's class, and ours of the same kind."""
QUALITY = ("tv1", "tv2", "tv3", "c2st", "tstr", "linear_tstr")
CAPTION = """\
Median [lowest, highest]. s: of the clock; CPU s: processor seconds, which other work on the machine lengthens less.
tv1, tv2, tv3: mean total variation of marginals; c2st: AUC of telling synthetic from real (0.5 is best); tstr: AUC on
real test rows of boosting trained on synthetic ones; linear_tstr: of a logistic regression. GFLOP/s, and ms of a step,
are by processor seconds; on a GPU by those of the clock."""

FIGURES = "|".join(QUALITY)
Row = Sequence[str]


def draw(results: Results) -> str:
    """All tables that have a row."""
    parts = [_about(results)]
    for title, heads, rows in (
        ("Fits on Adult, encoding included", "runs|s|CPU s|peak MiB|theirs / ours", _timed(results)),
        ("Arithmetic of matrix products", "GFLOP/step|GFLOP/epoch|GFLOP/s|limit, s/epoch", _work(results)),
        ("Quality on Adult", f"epsilon|runs|noise|CPU s|{FIGURES}", list(_quality(results))),
        ("A step with DP-SGD, ms", "private|by Opacus|no clip, no noise|overhead", _overhead(results)),
        ("Memory, MiB", "table|+ encoding|+ steps|encoded|encode s|step s", _memory(results)),
        ("Private peers", f"asked|told|steps only|a row twice|CPU s|{FIGURES}", list(_peers(results))),
    ):
        if rows:
            parts.append(_lines([(title, *heads.split("|")), *rows]))
    peers = dict.fromkeys(run.name.removeprefix("peer ").split(",")[0] for run in _of(results, "peer"))
    return "\n\n".join([*parts, CAPTION, *(f"{name}: {REMARKS[name]}" for name in peers)])


def _about(results: Results) -> str:
    about = results.about
    versions = ", ".join(f"{name} {version}" for name, version in about.get("neural_versions", {}).items())
    machine = [
        about.get("cpu") or "unknown CPU",
        f"{about['cores']} cores",
        *([about["gpu"]] if "gpu" in about else []),
    ]
    return ", ".join([*machine, about.get("date", "undated"), f"Python {about['python']}", versions]).rstrip(", ")


def _of(results: Results, task: str) -> list[Run]:
    return [run for run in results.runs if run.name.partition(" ")[0].rstrip(",") == task]


def _groups(results: Results, task: str) -> dict[tuple[str, float | None], list[Run]]:
    """The runs of a task that did not fail, by what is the same but for the seed."""
    groups: dict[tuple[str, float | None], list[Run]] = {}
    for run in _of(results, task):
        if run.failure is None:
            groups.setdefault((run.name.removeprefix(f"{task} "), run.epsilon), []).append(run)
    return groups


def _timed(results: Results) -> list[Row]:
    rows: list[Row] = []
    for task in ("fit", "encode"):
        groups = _groups(results, task)
        for (name, epsilon), runs in groups.items():
            ours, promise = groups.get((_counterpart(name), None)), "" if epsilon is None else f", epsilon {epsilon:g}"
            ratio = f"{_median(runs, _cpu) / _median(ours, _cpu):.2f}" if ours else ""
            peak = f"{_median(runs, _score('peak_mib')):,.0f}"
            rows.append(
                (
                    f"{task} {name}{promise}",
                    str(len(runs)),
                    _spread(runs, _wall, 1),
                    _spread(runs, _cpu, 1),
                    peak,
                    ratio,
                )
            )
    return rows


def _counterpart(name: str) -> str:
    """Our point like one of the library's; nothing where the point is ours."""
    generator, comma, rest = name.partition(",")
    return PAIRS[generator] + comma + rest if generator in PAIRS else ""


def _work(results: Results) -> list[Row]:
    rates = [run.scores["layer_gflops"] for run in _of(results, "matmul") if run.failure is None]
    rows: list[Row] = []
    for (name, _), runs in _groups(results, "flops").items():
        step, epoch = (_median(runs, _score(f"{what}_gflop")) for what in ("step", "epoch"))
        limit = (f"{rates[0]:.0f}", f"{epoch / rates[0]:.2f}") if rates else ("", "")
        rows.append((name.split(",")[0], f"{step:.2f}", f"{epoch:.0f}", *limit))
    return rows


def _quality(results: Results) -> Iterator[Row]:
    for (name, epsilon), runs in _groups(results, "quality").items():
        noise = f"{runs[0].scores['noise_multiplier']:.2f}" if "noise_multiplier" in runs[0].scores else ""
        words = "none" if epsilon is None else f"{epsilon:g}"
        figures = (_spread(runs, _score(figure), 3) for figure in QUALITY)
        yield (name, words, str(len(runs)), noise, f"{_median(runs, _cpu):.0f}", *figures)


def _overhead(results: Results) -> list[Row]:
    rows: list[Row] = []
    for (name, _), runs in _groups(results, "overhead").items():
        private, opacus, plain = (_median(runs, _score(f"{way}_ms")) for way in ("private", "opacus", "plain"))
        rows.append((name, f"{private:.1f}", f"{opacus:.1f}", f"{plain:.1f}", f"{private / plain:.2f}"))
    return rows


def _memory(results: Results) -> list[Row]:
    rows: list[Row] = []
    for (name, _), runs in _groups(results, "memory").items():
        sizes = (f"{runs[0].scores[f'{what}_mib']:,.0f}" for what in ("table", "encode", "peak", "encoded"))
        rows.append((name, *sizes, *(f"{runs[0].scores[what]:.3g}" for what in ("encode_s", "step_s"))))
    return rows


def _peers(results: Results) -> Iterator[Row]:
    for run in _of(results, "peer"):
        name, scores = run.name.removeprefix("peer ").split(",")[0], run.scores
        if run.failure is not None:
            yield (name, f"{run.epsilon:g}", f"not measured: {run.failure}")
            continue
        costs = (scores.get(what) for what in ("told_epsilon", "steps_epsilon", "repeats_epsilon"))
        shown = ("" if cost is None else f"{cost:.3f}" for cost in costs)
        yield (name, f"{run.epsilon:g}", *shown, f"{_cpu(run):.0f}", *(f"{scores[figure]:.3f}" for figure in QUALITY))


def _median(runs: Sequence[Run], value: Callable[[Run], float]) -> float:
    return median(value(run) for run in runs)


def _spread(runs: Sequence[Run], value: Callable[[Run], float], digits: int) -> str:
    groups = sorted(value(run) for run in runs)
    span = f" [{groups[0]:.{digits}f}, {groups[-1]:.{digits}f}]" if len(groups) > 1 else ""
    return f"{median(groups):.{digits}f}{span}"


def _wall(run: Run) -> float:
    return run.fit_s or 0.0


def _cpu(run: Run) -> float:
    return run.fit_cpu_s or 0.0


def _score(name: str) -> Callable[[Run], float]:
    return lambda run: run.scores[name]


def _lines(rows: Sequence[Row]) -> str:
    """Columns under each other; a row that ends early takes the space that is left."""
    full = [row for row in rows if len(row) == len(rows[0])]
    widths = [max(len(row[index]) for row in full) for index in range(len(rows[0]))]
    widths[0] = max(len(row[0]) for row in rows)
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=False))]).rstrip()
        for row in rows
    )
