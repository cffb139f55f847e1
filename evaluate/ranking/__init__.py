"""Which of several synthetic tables of one real table is better, by which figure, and which cannot be told apart.

Everything rests on pairs: each figure of two tables is compared beside the same real rows, all comparisons together
are allowed for as one family (Holm), groups are shown by letters (Piepho 2004), and the overall order says no more than
the comparisons do.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from evaluate.ranking.comparison import ALPHA, PairComparison, compared
from evaluate.ranking.figure import FIGURES, Figures
from evaluate.ranking.letters import letters
from evaluate.ranking.place import places

__all__ = ["ALPHA", "FIGURES", "RULE", "Figures", "ranked"]

RULE = (
    "A table is ahead of another where at least one figure tells it to be better and none tells it to be worse; "
    "its place is one more than the number of tables ahead of it. Figures are not weighed against each other."
)


def ranked(tables: Mapping[str, Figures]) -> dict[str, Any]:
    """The order of tables and what it rests on, as plain data: what `Evaluation.ranking` holds of them.

    Args:
        tables: figures by name of the table, each measured beside the same real rows on as many rows.

    Returns:
        "rule", "alpha", "n_comparisons"; "order": name, place, who is ahead, letters; "figures": for each its values,
        landmarks and letters by table, and why it is absent; "comparisons": each pair by each figure.
    """
    found = compared(tables)
    order = places(list(tables), found)
    return {
        "rule": RULE,
        "alpha": round(ALPHA, 6),
        "n_comparisons": sum(one.difference is not None for one in found),
        "order": [
            {"name": one.name, "place": one.place, "behind": list(one.behind), "letters": one.letters} for one in order
        ],
        "figures": [_figure(name, tables, found) for name in FIGURES],
        "comparisons": [one.content() for one in found],
    }


def _figure(name: str, tables: Mapping[str, Figures], found: Sequence[PairComparison]) -> dict[str, Any]:
    sign = 1.0 if FIGURES[name] == "lower" else -1.0
    measured = {table: figures.found[name] for table, figures in tables.items() if name in figures.found}
    order = sorted(measured, key=lambda table: sign * measured[table].value)
    apart = [(one.first, one.second) for one in found if one.figure == name and one.better is not None]
    landmarks = [evidence.landmarks for evidence in measured.values()]
    return {
        "figure": name,
        "direction": FIGURES[name],
        "values": {table: measured[table].value for table in order},
        "reference": landmarks[0][0] if landmarks else None,
        "floor": landmarks[0][1] if landmarks else None,
        "letters": letters(order, [pair for pair in apart if set(pair) <= set(order)]),
        "absent": {table: of.absent[name].message for table, of in tables.items() if name in of.absent},
    }
