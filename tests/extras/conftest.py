"""Fixtures of the core's tests that extras use: the command line with its environment and an evaluation."""

from tests.reports.conftest import evaluation, verdicts_of  # noqa: F401
from tests.understudy.conftest import own_key, table, workspace  # noqa: F401
