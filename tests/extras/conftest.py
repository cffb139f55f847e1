"""The command line of `tests.understudy`, for the commands of extras, and the environment that it runs in."""

from tests.understudy.conftest import no_ledger, no_signature, own_key, table, workspace  # noqa: F401 - fixtures
