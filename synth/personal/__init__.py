"""Personal data: values that Faker makes in the place of real ones, and how such values are written and compared."""

from synth.personal.replacement import capacity, check_room, generate

__all__ = ["capacity", "check_room", "generate"]
