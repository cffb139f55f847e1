"""What tests of extras share: the command line with its environment, an evaluation, and quick schedules."""

from typing import Any

from synth.dp.schedule import Schedule, approximate_rho, resolve_delta
from synth.schema import Schema
from tests.reports.conftest import evaluation, verdicts_of  # noqa: F401
from tests.understudy.conftest import own_key, table, workspace  # noqa: F401


def uncalibrated(generator: Any, schema: Schema) -> Schedule:
    """A schedule that a fit takes for its own, below its epsilon: to search for the least noise takes a second."""
    counted, delta = generator.counted(schema), resolve_delta(generator.delta, schema)
    return Schedule(tuple(generator.all_events(counted, delta)(approximate_rho(generator.epsilon, delta) / 8)), delta)
