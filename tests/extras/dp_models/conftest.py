"""Tables with a known signal, as the measures of utility have them."""

from tests.evaluate.utility.conftest import linear_only, make  # noqa: F401 - fixtures
