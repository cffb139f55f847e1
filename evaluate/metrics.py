"""The registry of metrics: the modules that declare and measure them, and their catalog.

A metric is declared beside the code that measures it, as a `Metric` in `METRICS` of that module; `MODULES` has a line
for each measure: a module, whose `measure` it is, or `module:function`. An installed package brings further ones by an
entry point of the group `understudy.metrics`: the name of a measure, and its module, which has `METRICS` and
`measure(tables) -> MetricResult`. None takes a name of ours. Modules are imported late, since some are heavy.

A rule may rest on a number whose 95% interval is shown, by simulation in the test suite, to hold what it estimates in
93 to 97 of 100 repetitions, or in more where it is exact or allows for a choice, and on the few whose textbook interval
docs/explanation/evaluation.md names. All others describe: an entry says why, and what to name instead.
"""

import importlib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Literal, TypeVar

from evaluate.estimate import Direction, EvaluationError
from evaluate.real_facts import RealFacts
from synth import extras

Growing = Literal["", "train", "holdout"]
V = TypeVar("V")


_SHARE = (
    r"validity\..+|relations\.kept|columns\.(ks|tvd|tail)|(pairs|triples|fairness)\.tvd|pairs\.tvd\.floor"
    r"|joint\.repeats|.+\.c2st|.+\.(auc|tpr_at_0\.\d+)"
    r"|privacy\.(copies(\.(?!excess)\w+)?|personal(\.column)?|nndr\.median)"
)
_RANGES: tuple[tuple[str, tuple[float, float]], ...] = (
    (rf"({_SHARE})(\.mean|\.worst)?", (0.0, 1.0)),
    (rf"({_SHARE})(\.excess|_excess)(\.mean|\.worst)?", (-1.0, 1.0)),
    (r"privacy\.(singling_out\.\w+|linkability|inference|reconstruction)"
     r"|relations\.lost\.worst", (-1.0, 1.0)),
    (r"utility\.(tstr\..+|\w+\.tstr)", (-1.0, 1.0)),
    (r"utility\.(\w+\.)*gap(\..+)?|fairness\.gap\.\w+", (-2.0, 2.0)),
    (r"columns\.(wasserstein|chi2)|utility\.columns(\.\w+)?"
     r"|privacy\.dcr\.median", (0.0, math.inf)),
)  # fmt: skip
"""The least and the most that numbers come to, by name: shares, differences of two, scores, losses, distances."""


@dataclass(frozen=True)
class Counted:
    """The unit that the `n` of a number counts."""

    what: str
    real: int = 0
    most: int | None = None
    beside: Growing = ""

    def real_rows(self, n: int, n_needed: int, real: RealFacts) -> float:
        """Real rows that it takes at least; what has to grow beside them does so in proportion."""
        rows = {"": 0, "train": real.train_rows, "holdout": real.holdout_rows}[self.beside]
        return self.real * n_needed + rows * n_needed / max(n, 1)


SYNTHETIC = Counted("synthetic rows")
COMPARED = Counted("rows of the holdout and as many synthetic ones", 1, 50_000)
KEPT = Counted("synthetic rows, beside which the training rows have to grow alike", 0, 50_000, "train")
COUNTS = Counted("synthetic rows, beside which the training rows have to grow alike", 0, None, "train")
COPIED = Counted("synthetic rows, beside which the holdout has to grow alike", 0, None, "holdout")
COPIED_PEOPLE = Counted("people who could be copied, beside whom the holdout has to grow alike", 1, None, "holdout")
HELD_OUT_PEOPLE = Counted("held-out people, beside whom train has to grow alike", 1, None, "train")
THREE = Counted("rows of each of three tables: training table, holdout and synthetic table", 2, 5_000)
TEST = Counted("test rows, which are half of the holdout", 2, 20_000)
PEOPLE = Counted("training rows and held-out rows, as many as the job\u2019s targets let attacks try", 1)
MEMBERS = Counted("training rows that are attacked, beside which the holdout has to grow alike", 1, None, "holdout")
ALONE = Counted("training and held-out rows that are alone with their combination", 1, None, "holdout")
ATTEMPTS = Counted("attempts of the attack, not rows; the attack decides how many it makes")
NOISY = Counted("rows as they were released; the interval is that of noise, and a larger epsilon narrows it too")


SWAPPED = "Were the two sides, train and holdout, swapped? Else somebody has seen the holdout."
"""What is asked where a table holds rows of the holdout."""


@dataclass(frozen=True)
class Metric:
    name: str
    direction: Direction
    title: str
    sentence: str = ""
    _: KW_ONLY
    describes: str = ""
    counted: Counted | None = None
    key: bool = False
    """Whether a comparison of tables on one screen shows it."""
    note: str = ""
    better: str = ""
    above_one: str = ""
    attack: Literal["", "always", "on request"] = ""
    criteria: tuple[str, ...] = ()
    without_holdout: bool = False
    needs: Literal["", "order", "texts"] = ""
    ends: tuple[float, float] | None = None
    anchor: str = ""
    spoiled_by: tuple[str, ...] = ()
    """Cases of self-tests that must fail by it, beside those that `evaluate.gate.policy_checks` knows by its name."""
    sampled: Literal["", "copied", "counted"] = ""
    """What a sample of a large table shows of it (`evaluate.engine.on_samples`)."""
    bounded: bool = False
    """Whether it is a rate or an area of a test of who is in the table, which a privacy claim limits."""
    may_lack: bool = False
    """Whether a real table may have nothing that it is about; then nothing can be lost, and no rule on it applies."""
    never_waived: str = ""
    """Why nobody may answer for its FAIL."""
    by: str = ""
    """Its measure; left out where that is `measure` of the module."""

    @property
    def range(self) -> tuple[float, float]:
        """The least and the most that it can come to, with its interval; infinite where nobody says.

        >>> CATALOG["privacy.copies.excess"].range
        (-1.0, 1.0)
        """
        if self.ends is not None and is_ours(self.by):
            return self.ends
        if not (is_ours(self.by) or self.name == UNJUDGED):
            return -math.inf, math.inf
        return next((ends for names, ends in _RANGES if re.fullmatch(names, self.name)), (-math.inf, math.inf))

    @property
    def gateable(self) -> bool:
        """True where a rule may rest on it."""
        return not self.describes


def biased(instead: str) -> str:
    """The reason why no rule may rest on a mean of distances."""
    return f"a small sample adds to it, so that a limit would depend on the number of rows; name {instead!r}"


_MODULES = {
    "validity": "evaluate.validity",
    "fidelity.columns": "evaluate.fidelity.columns",
    "fidelity.pairs": "evaluate.fidelity.pairs",
    "fidelity.triples": "evaluate.fidelity.pairs:triples",
    "fidelity.relations": "evaluate.fidelity.relations",
    "fidelity.detection": "evaluate.fidelity.detection",
    "fidelity.repeats": "evaluate.fidelity.detection:repeated_rows",
    "fidelity.looks": "evaluate.fidelity.looks",
    "utility.tstr": "evaluate.utility.tstr",
    "utility.columns": "evaluate.utility.columns",
    "utility.queries": "evaluate.utility.queries",
    "utility.clusters": "evaluate.utility.clusters",
    "fairness.models": "evaluate.fairness:models",
    "fairness.columns": "evaluate.fairness:columns",
    "privacy.personal": "evaluate.privacy.pii",
    "privacy.copies": "evaluate.privacy.copies",
    "privacy.copied_parts": "evaluate.privacy.copied_parts",
    "privacy.distance": "evaluate.privacy.distance",
    "privacy.membership": "evaluate.privacy.membership",
    "privacy.singling_out": "evaluate.privacy.singling_out",
    "privacy.linkability": "evaluate.privacy.linkability",
    "privacy.inference": "evaluate.privacy.attribute_inference",
    "privacy.reconstruction": "evaluate.privacy.reconstruction",
}
"""Measures of every evaluation, in the order in which they run."""
_ON_REQUEST = {
    "privacy.shadow": "evaluate.privacy.shadow_models",
    "privacy.audit": "evaluate.audit_result",
    "released": "evaluate.dp_release",
}
"""Measures that fit models or spend a budget of their own, run only where a job asks for them."""

CLIPPED = "training.clip_fraction"
UNJUDGED = "validity.columns.unjudged"
_NOTED = (
    Metric("statement.epsilon", "lower", "Claimed epsilon",
           "The privacy budget: how much one unit's rows may change what is released; lower is safer.", by="statement"),
    Metric("statement.delta", "lower", "Claimed delta", "What is added to the limit that epsilon sets. Alone it would "
           "allow every row to be given away whole with that probability.", by="statement"),
    Metric(UNJUDGED, "lower", "Columns that nobody judged", "Share of the columns of the file that the schema does not "
           "keep, so that no measure compared them. It stands there where there is any.", by="file"),
    Metric(CLIPPED, "none", "Gradients clipped",
           "Share of sampled units whose gradient was scaled down to the bound while a network trained.", by="training",
           describes="it is of how a network was trained, not of its table; name 'privacy.membership.auc'"),
)  # fmt: skip
"""Numbers that nothing measures: claims of a privacy statement, columns that no measure looks at, and what a fit by
DP-SGD notes beside its log."""

GROUP = "understudy.metrics"


class Late(Mapping[str, V]):
    """A mapping that is made when it is first looked at."""

    def __init__(self, make: Callable[[], Mapping[str, V]]) -> None:
        self.make = make

    def __getitem__(self, name: str) -> V:
        return self.make()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.make())

    def __len__(self) -> int:
        return len(self.make())


def _of_every_evaluation() -> Mapping[str, str]:
    return {**_MODULES, **extras.entries("measure")}


def _on_request() -> Mapping[str, str]:
    return {**_ON_REQUEST, **extras.entries("measure on request")}


@cache
def _modules() -> Mapping[str, str]:
    """The module of each measure, ours first."""
    taken = {*_of_every_evaluation(), *_on_request(), *(metric.by for metric in _NOTED)}
    return {
        **_of_every_evaluation(),
        **{point.name: point.value for point in entry_points(group=GROUP) if point.name not in taken},
    }


STATED = "statement."  # Prefix of what a privacy statement says, which no package declares as a number of its own


@cache
def _catalog() -> Mapping[str, Metric]:
    """Every number, ours first; a package that cannot be imported has none, and fails where it is measured."""
    ours = [
        metric for by, module in {**_of_every_evaluation(), **_on_request()}.items() for metric in declared(by, module)
    ]
    catalog = {metric.name: metric for metric in (*ours, *_NOTED)}
    for by, module in _modules().items():
        if by in _of_every_evaluation():
            continue
        try:
            brought = declared(by, module)
        except (Exception, SystemExit):  # noqa: BLE001, S112 (another package must not take the catalog down)
            continue
        for metric in brought:
            if not metric.name.startswith(STATED):
                catalog.setdefault(metric.name, metric)
    return catalog


def declared(by: str, place: str) -> tuple[Metric, ...]:
    """The numbers of a measure, as `METRICS` of its module lists them."""
    module, _, function = place.partition(":")
    metrics = importlib.import_module(module).METRICS
    return tuple(replace(metric, by=by) for metric in metrics if metric.by == (by if function else ""))


@cache
def _gateable() -> Mapping[str, Direction]:
    return {name: number.direction for name, number in CATALOG.items() if number.gateable}


MODULES: Mapping[str, str] = Late(_modules)  # The module of each measure of every evaluation, by the measure's name
CATALOG: Mapping[str, Metric] = Late(_catalog)  # Every number by name
GATEABLE: Mapping[str, Direction] = Late(_gateable)
"""Every number that a rule may rest on, with the direction that is better."""


def is_ours(measure: str) -> bool:
    return measure in _of_every_evaluation() or measure in _on_request()


def needs_holdout(measure: str) -> bool:
    """True for attacks, for models, and for what other packages measure and do not declare otherwise."""
    return measure.startswith(("privacy.", "utility.", "fairness.models")) or not is_ours(measure)


def measure_of(name: str) -> Callable[[Any], Any]:
    """The function that measures, of a name in `MODULES`."""
    module, _, function = MODULES[name].partition(":")
    try:
        measure: Callable[[Any], Any] = getattr(importlib.import_module(module), function or "measure")
    except (Exception, SystemExit) as error:
        if name in _of_every_evaluation():
            raise
        raise EvaluationError(
            f"measure={name!r} of another package cannot be imported ({type(error).__name__}); mend that package"
        ) from None
    return measure


def numbers_of(measure: str) -> tuple[str, ...]:
    """Names of the numbers that a measure gives, without those of single columns or pairs being told apart."""
    return tuple(name for name, number in CATALOG.items() if number.by == measure)
