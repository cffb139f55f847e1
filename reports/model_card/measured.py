"""What was computed from real rows, as an internal card shows it."""

from collections.abc import Iterable

from evaluate.gate.shift import Shift
from evaluate.gate.verdict import Verdict
from evaluate.result import Candidate, Estimate, Evaluation
from reports.glossary import KEY_FIGURES, entry
from reports.limits import limits_of, warnings_of
from reports.model_card.shape import Figure, Measured, Ruled
from reports.rulings import ruling_of


def measured_of(evaluation: Evaluation, candidate: Candidate, verdicts: Iterable[Verdict]) -> Measured:
    """What an internal card shows of an evaluation, and nothing of which is in a public one.

    Args:
        evaluation: *Sensitive*: it was measured on real rows.
        candidate: one of its tables.
        verdicts: of any policies on any candidates.
    """
    found = [candidate.find(measure) for measure in KEY_FIGURES]
    return Measured(
        figures=tuple(_figure(one) for one in found if isinstance(one, Estimate)),
        not_measured=tuple(dict.fromkeys(failure.measure for failure in candidate.failures)),
        limits=limits_of(candidate, Shift.of(evaluation.real).notes).power,
        warnings=warnings_of(evaluation),
        verdicts=tuple(
            Ruled(
                policy=v.policy, version=v.version, audience=v.audience, verdict=v.verdict,
                words=ruling_of(v, evaluation.ranking).words,
            )
            for v in verdicts
            if v.candidate == candidate.name
        ),
    )  # fmt: skip


def _figure(found: Estimate) -> Figure:
    return Figure(
        measure=found.measure,
        title=entry(found.measure).title,
        value=found.value,
        low=found.low,
        high=found.high,
        fresh_sample=found.reference,
    )
