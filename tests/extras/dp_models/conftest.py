"""Tables with a known signal, as the measures of utility have them."""

from tests.evaluate.utility.conftest import make  # noqa: F401 - a fixture
