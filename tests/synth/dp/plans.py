"""Plans as files, which people write and the product reads."""

import tomli_w

from synth.dp.schedule import Schedule


def to_toml(schedule: Schedule) -> str:
    """The text of a plan, from which the same schedule is read again, digit for digit."""
    records = [event.record() for event in schedule.events]
    lines = [{"what": r.what, "mechanism": r.mechanism, "count": r.count, **r.noise} for r in records]
    return tomli_w.dumps({"delta": schedule.delta, "events": lines})
