"""Every metric by its declaration, as a page: ``python -m benchmarks.metrics_table > docs/reference/metrics.md``.

A test holds the page equal to this.
"""

from itertools import groupby

from evaluate.metrics import CATALOG, Metric

BETTER = {"lower": "lower", "higher": "higher", "none": "it only describes"}
HEAD = """# Metrics

Every number of an evaluation, by the measure that gives it, as it is declared beside its code. A rule of a
[policy](gate.md#a-policy) may name those with a yes. How they are measured is in [What is measured](evaluation.md).
An installed package brings further ones by an entry point of the group `understudy.metrics`.
`python -m benchmarks.metrics_table` writes this page.
"""


def page() -> str:
    """The page as Markdown."""
    parts = [HEAD]
    for measure, metrics in groupby(CATALOG.values(), key=lambda metric: metric.by):
        head = "| number | title | better | it says | in a rule |\n| --- | --- | --- | --- | --- |"
        parts.append(f"\n## `{measure}`\n\n{head}\n" + "".join(f"{_row(metric)}\n" for metric in metrics))
    return "".join(parts)


def _row(metric: Metric) -> str:
    cells = (
        f"`{metric.name}`", metric.title, metric.better or BETTER[metric.direction], metric.sentence,
        "yes" if metric.gateable else f"no: {metric.describes}",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    print(page(), end="")
