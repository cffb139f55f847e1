"""A table of every kind of column, as tests of `synth` have it."""

from tests.synth.conftest import frame, schema  # noqa: F401 - fixtures
