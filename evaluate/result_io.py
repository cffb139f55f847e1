"""The file form of an evaluation, `evaluation.json`: its strict reader and its JSON Schema.

A gate judges from this file alone, so that whatever no evaluation writes is damage, and never a verdict. Schema and
reader are read off the dataclasses of `evaluate.result`.
"""

import json
import math
from collections.abc import Hashable, Iterable, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from evaluate.metrics import CATALOG
from evaluate.result import NOTICE, SCHEMA_VERSION, Candidate, Evaluation, EvaluationError, adapter, plain_content
from synth import extras
from synth.validation import NotPlain, plain_json

LARGEST = 1e15  # No number in a picture is larger
_SLACK = 1e-6  # By how much a share may lie beyond its range, for rounding

Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=-_SLACK, le=1 + _SLACK, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=int(LARGEST))]
Matrix = list[list[Number | None]]


class FigurePart(BaseModel):
    """A part of a figure; keys that no picture needs may stand beside those that it does."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)
    shows_rows: ClassVar[bool] = False  # what real rows say as they say it, and no number that was computed from them


class ColumnTest(FigurePart):
    """The test of one column that readers know: its statistic, the rows of either table, and p."""

    statistic: str
    value: Number
    n: Annotated[list[Count], Field(min_length=2, max_length=2)]
    p: Share


class ColumnDescriptives(FigurePart):
    """What `descriptives` tells of one column; the difference of means is in real standard deviations."""

    tail: Number | None = None
    mean: Number | None = None
    std: Number | None = None
    spikes: Number | None = None
    steps: Number | None = None
    lattice: str = ""
    off: list[str] = []


class ColumnShares(FigurePart):
    """One column: the share of each label, real and synthetic; the last two labels are `other` and `missing`."""

    column: str
    kind: str
    labels: Annotated[list[str], Field(min_length=2)]
    edges: list[Number] | list[str] | None = None
    train: list[Share]
    synthetic: list[Share]
    tvd: Share
    test: ColumnTest | None = None
    descriptives: ColumnDescriptives | None = None
    ordered: bool = False


class Associations(FigurePart):
    columns: list[str]
    train: Matrix
    synthetic: Matrix


class Clique(FigurePart):
    class Cells(FigurePart):
        """Shares of rows by the codes of two columns: a list for each code of the first one."""

        labels: Annotated[list[list[str]], Field(min_length=2, max_length=2)]
        train: list[list[Share]]
        synthetic: list[list[Share]]

    columns: list[str]
    tvd: Number
    reference: Number | None = None
    floor: Number | None = None
    cells: "Clique.Cells | None" = None


class Cliques(FigurePart):
    worst: list[Clique] = []
    tvd: list[list[Number]] = []


class ModelScores(FigurePart):
    """Scores of one model, by what it was trained on; `None` of what was not trained."""

    model: str
    tstr: Number
    trtr: Number
    gap: Number
    low: Number
    high: Number
    fresh: Number | None = None
    floor: Number | None = None


class Utility(FigurePart):
    class Giveaway(FigurePart):
        column: str
        score: Number

    target: str
    metric: str
    models: list[ModelScores]
    task: str = ""
    why: str = ""
    giveaways: list[Giveaway] = []
    without: list[ModelScores] = []


class GroupShares(FigurePart):
    """The groups of a sensitive column, with their shares and how far their columns are off beyond noise."""

    class Group(FigurePart):
        """One group; `None` of what too few rows say nothing of."""

        group: str
        real: Number = 0.0
        synthetic: Number = 0.0
        excess: Number = 0.0

    column: str
    groups: list[Group]


class GroupModels(FigurePart):
    """The groups of a sensitive column, with what models lose in each, and by how much groups differ."""

    class Loss(FigurePart):
        gap: Number
        low: Number
        high: Number

    class Group(FigurePart):
        """One group; `None` of a model that too few rows test."""

        group: str
        few: bool
        boosting: "GroupModels.Loss" = Field(default=None, validate_default=False)  # type: ignore[assignment]

    class Level(FigurePart):
        """Differences between groups in predictions of models trained on synthetic and real rows."""

        model: str
        parity_tstr: Number
        parity_trtr: Number

    column: str
    groups: list[Group]
    levels: list[Level]


class Distances(FigurePart):
    class Pair(FigurePart):
        synthetic: list[Number]
        holdout: list[Number]

    quantiles: Annotated[list[Share], Field(min_length=1)]
    dcr: Pair
    nndr: Pair


class Membership(FigurePart):
    fpr: list[Share]
    tpr: list[Share]
    auc: Share
    n_members: Count = 0
    n_controls: Count = 0


class Looks(FigurePart):
    """*Sensitive*. Real rows beside synthetic ones, column by column, and rows of both on a map."""

    shows_rows: ClassVar[bool] = True

    class Column(FigurePart):
        column: str
        masked: bool
        real: list[str | None]
        synthetic: list[str | None]

    class Rows(FigurePart):
        columns: list["Looks.Column"]

    class Map(FigurePart):
        """Points, the share of variance of either axis, which synthetic points are near, and the holdout's share."""

        variance: Annotated[list[Share], Field(min_length=2, max_length=2)]
        real: list[Annotated[list[Number], Field(min_length=2, max_length=2)]]
        synthetic: list[Annotated[list[Number], Field(min_length=2, max_length=2)]]
        near: list[Count] | None = None
        near_holdout: Share = 0.0

    rows: "Looks.Rows"
    map: "Looks.Map | None" = None


class Validity(FigurePart):
    """Constraints with how many rows break each, and columns that break a rule."""

    class Law(FigurePart):
        class Shape(FigurePart):
            """A masked shape of rows that break the constraint."""

            shape: str
            n: Count

        rule: str
        n: Annotated[Count, Field(ge=1)]
        n_broken: Count
        reference: Number | None
        floor: Number | None
        shapes: list[Shape]

    class Column(FigurePart):
        column: str
        note: str

    constraints: list[Law]
    columns: list[Column]


class RelationRow(FigurePart):
    """A relation between columns, the shares of rows that keep it, and what is left of it, as texts."""

    relation: str
    kept: Share
    reference: Share
    floor: Share
    real: str | None = None
    synthetic: str | None = None


_OURS: Mapping[str, Any] = {
    "columns": list[ColumnShares],
    "associations": Associations,
    "pairs": Cliques,
    "triples": Cliques,
    "relations": list[RelationRow],
    "utility": Utility,
    "fairness_columns": list[GroupShares],
    "fairness_models": list[GroupModels],
    "distance": Distances,
    "membership": Membership,
    "validity": Validity,
    "looks": Looks,
}


OURS = frozenset({*_OURS, *extras.entries("figure"), "inference", "linkability", "reconstruction", "singling_out"})
"""Names of figures that a report draws, those of extras by the registry kind "figure" among them; no other package may
give them."""


def check_figures(figures: Mapping[str, Any]) -> None:
    """Refuse figures that cannot be drawn."""
    _reader().validate_python(dict(figures))


def showing_rows() -> frozenset[str]:
    """Names of the figures that show real rows, or texts of these."""
    return frozenset(name for name, shape in _shapes().items() if getattr(shape, "shows_rows", False))


def _shapes() -> dict[str, Any]:
    return {**_OURS, **extras.load("figure")}


@cache
def _reader() -> TypeAdapter[Any]:
    from pydantic import create_model

    fields: dict[str, Any] = {name: (shape, Field(default=None)) for name, shape in _shapes().items()}
    return TypeAdapter(create_model("Figures", __base__=FigurePart, **fields))


ROUNDING = 1e-9  # By how much a number may lie beyond its own interval


def evaluation_from(text: str) -> Evaluation:
    """An evaluation from JSON text.

    Raises:
        EvaluationError: the text is not an evaluation, a damaged one, or another version's.
    """
    try:
        content = plain_json(text)
        version = content.pop("schema_version")
    except NotPlain as damage:
        raise _damaged(str(damage)) from None
    except (ValueError, KeyError, AttributeError, TypeError):
        raise EvaluationError("this is not an evaluation; pass a file that `understudy evaluate` wrote") from None
    if type(version) is not int or version != SCHEMA_VERSION:
        raise EvaluationError(
            f"this version reads evaluations of schema_version={SCHEMA_VERSION}, not {str(version)[:20]!r}; "
            f"{'evaluate again' if type(version) is int and version < SCHEMA_VERSION else 'upgrade understudy'}"
        )
    content.pop("notice", None)
    try:
        evaluation = adapter().validate_json(json.dumps(content))
        if plain_content(evaluation) != content:  # every key is there, and every value of its type
            raise _DamagedError("a key is missing, or a value is not written as it should be")
        _unique("a candidate", (each.name for each in evaluation.candidates))
        _unique("a self-test", (each.case for each in evaluation.self_tests))
        tested = (test.candidate for test in evaluation.self_tests if test.candidate is not None)
        for candidate in (*evaluation.candidates, *tested):
            _check(candidate)
        return evaluation
    except _DamagedError as damage:
        raise _damaged(str(damage)) from None
    except ValidationError as error:
        raise _damaged(".".join(map(str, error.errors(include_input=False)[0]["loc"]))) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise _damaged(type(error).__name__) from None


class _DamagedError(ValueError):
    """Damage of a file, in a few words; becomes an `EvaluationError`."""


def _damaged(why: str) -> EvaluationError:
    remedy = "compare again" if why.startswith("ranking") else "evaluate again"
    return EvaluationError(f"the evaluation is damaged ({why}); {remedy}")


def _unique(what: str, keys: Iterable[Hashable]) -> None:
    seen = set()
    for key in keys:
        if key in seen:
            raise _DamagedError(f"{what} stands there twice")
        seen.add(key)


def _check(candidate: Candidate) -> None:
    check_figures(candidate.figures)
    _unique("an estimate", ((number.measure, number.subject) for number in candidate.estimates))
    failed = {(number.measure, number.subject) for number in candidate.failures}
    for number in candidate.estimates:
        known = CATALOG.get(number.measure)
        family = () if known is None else ((known.by, ()),)
        if failed & {(number.measure, number.subject), *family}:
            raise _DamagedError("a number is there that could not be measured")
        if known is not None and number.direction != known.direction:
            raise _DamagedError("a number is better the other way")
        slack = ROUNDING * (1 + abs(number.value))
        low, high = (number.value, number.value) if number.low is None else number.interval
        if not low - slack <= number.value <= high + slack:
            raise _DamagedError("a number lies outside its interval")
        least, most = (-math.inf, math.inf) if known is None else known.range
        numbers = (number.value, number.low, number.high, number.reference, number.floor, number.detectable)
        if any(end is not None and not least - slack <= end <= most + slack for end in numbers):
            raise _DamagedError(f"{number.measure} lies beyond {least:g} to {most:g}")


def evaluation_json() -> dict[str, Any]:
    """The JSON Schema of what `Evaluation.to_json` writes: every key is there, and no other."""
    schema = adapter().json_schema()
    schema["properties"] = {
        "schema_version": {"const": SCHEMA_VERSION, "description": "Version of this file's form; no other is read."},
        "notice": {"const": NOTICE, "description": "Whom the file is for."},
        **schema["properties"],
    }
    for each in (schema, *schema["$defs"].values()):
        if "properties" in each:
            each["required"] = list(each["properties"])
    return schema
