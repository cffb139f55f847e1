"""Local differential privacy: surveys whose respondents trust no collector.

Each respondent randomizes their own answers, and only a report leaves them. Reports become marginals with a known
variance, and these a table.
"""

from synth.local.estimation import ReportCounts
from synth.local.oracles import DirectEncoding, UnaryEncoding, smaller_variance
from synth.local.reports import Reports, collect, read_survey
from synth.local.survey import Survey

__all__ = [
    "DirectEncoding",
    "ReportCounts",
    "Reports",
    "Survey",
    "UnaryEncoding",
    "collect",
    "read_survey",
    "smaller_variance",
]
