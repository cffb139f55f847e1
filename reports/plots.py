"""Charts of an evaluation for a notebook: those of the report, one call each, as HTML and as an SVG file.

`Evaluation.plot` imports this module by its name when it is used, since `evaluate` lies below. Styles are those of the
report's stylesheet. They hold inside a chart alone, so that nothing else in a notebook changes. A chart has its own
background, dark where the notebook's theme is dark. It is as internal as the evaluation that it shows.
"""

import textwrap
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from markupsafe import Markup, escape

from evaluate.ranking import frontier
from evaluate.result import LOOKS, Candidate, Estimate, Evaluation, EvaluationError, Failure
from evaluate.text import alike, number, plain, short
from reports import charts
from reports.glossary import entry
from reports.html import sheet
from reports.sections.attacks import MOST_COLUMNS, attack_note
from reports.sections.comparison import Mark, ranking_of, sweep_of
from reports.sections.quality import associations, column_rows
from synth.errors import OutputError, nearest
from synth.output import whole_file
from synth.progress import brief_repr

ROOT = "understudy-chart"  # Class of the element that holds a chart; no style reaches beyond it
MOST = 12  # Columns that are drawn where none are named
INTERNAL = "Internal: measured on real rows."
UNTRUSTED = "This notebook is not trusted, so that pictures are left out: run the cell again, or trust the notebook."
"""Hidden by the styles, which go with the pictures."""
UTILITY, EXPOSURE = ("utility.tstr.boosting", "utility.tstr.linear"), "privacy.membership.auc"

_DARK_NOTEBOOKS = (
    'body[data-jp-theme-light="false"]', "body.vscode-dark", "body.vscode-high-contrast", 'html[theme="dark"]',
)  # fmt: skip
"""JupyterLab and Notebook, VS Code, Colab."""
_NO_NOTEBOOK = "body:not([data-jp-theme-light]):not(.vscode-light):not(.vscode-dark):not(.vscode-high-contrast)"


@dataclass(frozen=True, repr=False)
class Drawing:
    """One picture of a chart."""

    __repr__ = brief_repr

    svg: Markup
    caption: str = ""
    number: str = ""


@dataclass(frozen=True, repr=False)
class Chart:
    """A chart that a notebook shows; `print` gives one line."""

    kind: str
    title: str
    note: str
    drawings: tuple[Drawing, ...]
    is_wide: bool = False

    def __repr__(self) -> str:
        n = len(self.drawings)
        return f"<Chart {self.kind}: {plain(self.title)}, {n} picture{'s' if n != 1 else ''}>"

    def _repr_html_(self) -> str:
        figures = Markup("").join(
            Markup("<figure><figcaption><span>{}</span><b>{}</b></figcaption>{}</figure>").format(
                plain(drawing.caption), drawing.number, drawing.svg
            )
            for drawing in self.drawings
        )
        body = Markup(
            '<div class="{}"><style>{}</style><p class="untrusted">{}</p><p class="title">{}</p>'
            '<p class="note">{} {}</p><div class="charts{}">{}</div></div>'
        )
        wide = " wide" if self.is_wide else ""
        return str(body.format(ROOT, _scoped_style(), UNTRUSTED, plain(self.title), self.note, INTERNAL, wide, figures))

    def _repr_svg_(self) -> str:
        """The pictures in a grid, as a drawing by itself."""
        return _composed(self)

    def save(self, path: Path | str) -> Path:
        """Write the chart to a file, whole or not at all; the path is returned."""
        path = Path(path)
        if path.suffix not in (".svg", ".html"):
            raise OutputError(f"a chart is saved as .svg or .html: path={str(path)!r}; name one of these")
        head = f'<!doctype html>\n<meta charset="utf-8">\n<title>{escape(plain(self.title))}</title>\n'
        text = self._repr_svg_() if path.suffix == ".svg" else f"{head}{self._repr_html_()}\n"
        with whole_file(path) as beside:
            beside.write_text(text, encoding="utf-8", newline="\n")
        return path


COLUMN, CAPTION, GAP, EDGE, HEAD = 320.0, 24.0, 28.0, 20.0, 64.0
ACROSS = 3


def _composed(chart: Chart) -> str:
    """The drawings of a chart as one SVG, row by row."""
    parts = [ET.fromstring(str(drawing.svg)) for drawing in chart.drawings]  # noqa: S314 - drawn here
    sizes = [tuple(float(side) for side in part.get("viewBox", "0 0 1 1").split()[2:]) for part in parts]
    across = 1 if chart.is_wide else min(ACROSS, len(parts))
    column = max(size[0] for size in sizes) if chart.is_wide else COLUMN
    heights = [size[1] * column / size[0] if not chart.is_wide else size[1] for size in sizes]
    rows = [heights[at : at + across] for at in range(0, len(heights), across)]
    width = max(2 * EDGE + across * column + (across - 1) * GAP, 2 * COLUMN)
    height = EDGE + HEAD + sum(max(row) + CAPTION + GAP for row in rows)
    root = charts.svg.canvas(width, height, chart.title, f"{ROOT} alone")
    root.set("xmlns", "http://www.w3.org/2000/svg")
    root.set("width", f"{width:g}")
    root.set("height", f"{height:g}")
    paper = ".paper { fill: var(--paper); }"  # rules are not nested: a file goes to programs that know only old styles
    ET.SubElement(root, "style").text = f"{_colors(f':root.{ROOT}')}\n{sheet('drawing.css')}{paper}"
    charts.svg.add(root, "rect", "paper", x=0, y=0, width=width, height=height)
    charts.svg.words(root, "name", (EDGE, EDGE + 12), chart.title)
    for line, words in enumerate(textwrap.wrap(f"{chart.note} {INTERNAL}", int((width - 2 * EDGE) / 6.2))):
        charts.svg.words(root, "tick", (EDGE, EDGE + 32 + 16 * line), words)
    y = EDGE + HEAD
    for at, row in enumerate(rows):
        for position in range(len(row)):
            drawing, part = chart.drawings[at * across + position], parts[at * across + position]
            x = EDGE + position * (column + GAP)
            charts.svg.words(root, "name", (x, y + 13), short(drawing.caption, 36))
            charts.svg.words(root, "tick num", (x + column, y + 13), drawing.number, "end")
            placed = {"x": x, "y": y + CAPTION, "width": column, "height": row[position]}
            part.attrib.update({name: f"{value:g}" for name, value in placed.items()}, overflow="visible")
            root.append(part)
        y += max(row) + CAPTION + GAP
    return str(charts.svg.rendered(root))


@cache
def _colors(around: str) -> str:
    """Light, or dark where what is around the chart is; `around`: its selector without any notebook around it."""
    notebooks = ", ".join(f"{notebook} .{ROOT}" for notebook in _DARK_NOTEBOOKS)
    dark = f"@media screen and (prefers-color-scheme: dark) {{ {around} {{ {sheet('dark.css')} }} }}"
    return f".{ROOT} {{ {sheet('light.css')} }}\n{dark}\n{notebooks} {{ {sheet('dark.css')} }}"


def _scoped_style() -> Markup:
    """Styles that reach nothing outside a chart."""
    nested = f".{ROOT} {{\n{sheet('drawing.css')}\n{sheet('chart.css')}}}"
    return Markup(f"{_colors(f'{_NO_NOTEBOOK} .{ROOT}')}\n{nested}")  # noqa: S704 - files of this package


@dataclass(frozen=True)
class Plots:
    """The charts of an evaluation, as `evaluation.plot`."""

    evaluation: Evaluation

    def __repr__(self) -> str:
        return "<Plots: columns(), pairs(), rows(), attacks(), frontier()>"

    def columns(self, *names: str, candidate: str | None = None) -> Chart:
        """Distributions of single columns, real and synthetic.

        Args:
            names: of columns, in the order to draw them in; without any, the twelve that are furthest off.
            candidate: the table; `None`: the only one, or the one that the job names for release.

        Raises:
            EvaluationError: there is no such table or column, or columns were not compared.
        """
        chosen = self._candidate(candidate)
        rows = {row.column: row for row in column_rows([chosen])}
        if not rows:
            raise _absent(chosen, "columns", "fidelity.columns")
        picked = [rows[_known(name, rows)] for name in names] or list(rows.values())[:MOST]
        drawings = tuple(
            Drawing(charts.overlay(figure, row.top), f"{row.column} ({row.kind})", number(figure["tvd"]))
            for row in picked
            if (figure := row.figures[0]) is not None
        )
        left = "" if names or len(rows) <= MOST else f" The {MOST} of {len(rows)} columns that are furthest off."
        note = f"Gray is the real table, color the synthetic one; the number is their total variation.{left}"
        return Chart("columns", f"Columns of {chosen.name}", note, drawings)

    def pairs(self, *names: str, candidate: str | None = None) -> Chart:
        """Associations of all pairs of columns: in the real table, in the synthetic one, and the difference.

        Args:
            names: of two columns or more; without any, those that are furthest off.
            candidate: the table; `None`: the only one, or the one that the job names for release.

        Raises:
            EvaluationError: there is no such table or column, only one is named, or pairs were not compared.
        """
        chosen = self._candidate(candidate)
        figure = chosen.figures.get("associations")
        if figure and names:
            kept = [figure["columns"].index(_known(name, figure["columns"])) for name in dict.fromkeys(names)]
            if len(kept) < 2:
                raise EvaluationError(f"a pair has two columns: names={names!r}; name another one")
            parts = {key: [[figure[key][i][j] for j in kept] for i in kept] for key in ("train", "synthetic")}
            named = {**figure, **parts, "columns": [figure["columns"][i] for i in kept]}
            chosen = replace(chosen, figures={**chosen.figures, "associations": named})
        triangles = associations(chosen)
        if triangles is None:
            raise _absent(chosen, "pairs of columns", "fidelity.pairs")
        maps = {"real": triangles.train, "synthetic": triangles.synthetic, "difference": triangles.difference}
        drawings = []
        for name, values in maps.items():
            top = 0.5 if name == "difference" else 1.0
            drawn = charts.association_map(triangles.columns, values, f"Associations, {name}", top)
            drawings.append(Drawing(drawn, name, number(values[1][0]) if len(values) == 2 else ""))  # of two columns
        left = f" {triangles.left_out} more columns are not drawn." if triangles.left_out else ""
        note = (
            "The stronger a shade, the stronger the association; brown is a negative one. The difference is synthetic "
            f"less real, and its strongest shade half an association.{left}"
        )
        return Chart("pairs", f"Pairs of columns of {chosen.name}", note, tuple(drawings))

    def rows(self, candidate: str | None = None) -> Chart:
        """Real and synthetic rows on a map of two dimensions.

        Args:
            candidate: the table; `None`: the only one, or the one that the job names for release.

        Raises:
            EvaluationError: there is no such table, or no row is to be shown.
        """
        chosen = self._candidate(candidate)
        drawn = (chosen.figures.get(LOOKS) or {}).get("map")
        if drawn is None:
            raise _absent(chosen, "rows", "fidelity.looks")
        note = "Gray points are real rows, blue ones synthetic; a ring lies next to a training row."
        return Chart("rows", f"Rows of {chosen.name}", note, (Drawing(charts.scatter(drawn)),), is_wide=True)

    def attacks(self, *names: str, candidate: str | None = None) -> Chart:
        """Membership attack as a ROC curve, and the inference of secret values, column by column.

        Args:
            names: of columns whose values are inferred; without any, those with the largest advantage.
            candidate: the table; `None`: the only one, or the one that the job names for release.

        Raises:
            EvaluationError: there is no such table or column, or neither attack was run.
        """
        chosen = self._candidate(candidate)
        membership, note = chosen.figures.get("membership"), attack_note(chosen)
        secrets = {rates.column: rates for rates in note.columns}
        picked = [secrets[_known(name, secrets)] for name in names] or list(secrets.values())[:MOST_COLUMNS]
        drawings = []
        if membership:
            auc = chosen.find(EXPOSURE)
            value = _value(auc) if isinstance(auc, Estimate) else number(membership["auc"])
            drawings.append(Drawing(charts.roc_curve(membership), "membership", f"AUC {value}"))
        if picked:
            drawings.append(Drawing(charts.inferred(picked), "inferring a value", "advantage"))
        if not drawings:
            raise _absent(chosen, "attacks", "privacy.membership")
        how = (
            "The dashed line is guessing. Filled dots are members, hollow ones others; the tick is what the attacker's "
            "own sample gives. The less is found, the further right."
        )
        return Chart("attacks", f"Attacks on {chosen.name}", f"{note.sentence} {how}", tuple(drawings))

    def frontier(self) -> Chart:
        """Utility against exposure of every table; of a sweep, its measures along epsilon.

        Raises:
            EvaluationError: no table has both figures.
        """
        swept = sweep_of(self.evaluation)
        if swept is not None and swept.panels:
            drawings = tuple(Drawing(charts.tradeoff(panel), panel.entry.title, panel.better) for panel in swept.panels)
            seeds = f"Means over {swept.n_seeds} seeds, with their 95% intervals." if swept.n_seeds > 1 else "One seed."
            return Chart("frontier", "Privacy against utility", f"{seeds} To the left there is more privacy.", drawings)
        ranking = ranking_of(self.evaluation)
        if ranking is not None and ranking.marks:
            marks, titles, reference = ranking.marks, ranking.titles, ranking.reference
        else:
            marks, titles, reference = _marks(self.evaluation.candidates)
        note = "Up and to the right is better. Filled tables are beaten by none in both; a cross is disqualified."
        drawn = Drawing(charts.pareto(marks, titles, reference))
        return Chart("frontier", "Utility against exposure", note, (drawn,), is_wide=True)

    def _candidate(self, name: str | None) -> Candidate:
        tables = {table.name: table for table in self.evaluation.candidates}
        if name is not None:
            return tables[_known(name, tables, "candidate")]
        released = self.evaluation.provenance.release
        if released in tables:
            return tables[released]
        if len(tables) > 1:
            raise EvaluationError(
                f"a chart shows one table: candidate=None, and there are {', '.join(map(repr, tables))}; name one"
            )
        return self.evaluation.candidates[0]


def _known(name: str, known: Iterable[str], kind: str = "column") -> str:
    names = list(known)
    if name not in names:
        raise EvaluationError(f"nothing was measured of {kind}={name!r}; {nearest(str(name), names)}")
    return name


def _absent(candidate: Candidate, name: str, measure: str) -> EvaluationError:
    answer = candidate.find(measure)
    why = f" ({answer.message.rstrip('.')})" if isinstance(answer, Failure) and answer.message else ""
    return EvaluationError(f"{name} of {candidate.name!r} were not measured{why}; evaluate with measure {measure!r}")


def _value(estimate: Estimate) -> str:
    value, low, high = alike(estimate.value, estimate.low, estimate.high)
    return value if estimate.low is None else f"{value} [{low}, {high}]"


def _marks(candidates: Sequence[Candidate]) -> tuple[tuple[Mark, ...], tuple[str, str], float | None]:
    """The tables that have both figures, the titles of the axes, and the utility of real rows."""
    measured = [
        (table.name, use, risk)
        for measure in UTILITY
        for table in candidates
        if isinstance(use := table.find(measure), Estimate) and isinstance(risk := table.find(EXPOSURE), Estimate)
    ]
    measured = [point for point in measured if point[1].measure == measured[0][1].measure]
    if not measured:
        raise EvaluationError(
            f"no table has both {UTILITY[0]!r} and {EXPOSURE!r}; evaluate with both, and a target in the schema"
        )
    marks = []
    for name, use, risk in measured:
        low, high = (use.value if end is None else end for end in (use.low, use.high))
        exposure = risk.value if risk.high is None else risk.high
        marks.append(Mark(name, use.value, low, high, exposure, best=False, barred=False))
    best, first = frontier([(mark.name, mark.utility, mark.exposure) for mark in marks]), measured[0][1]
    titles = entry(first.measure).title, f"{entry(EXPOSURE).title}, upper end"
    return tuple(replace(mark, best=mark.name in best) for mark in marks), titles, first.reference
