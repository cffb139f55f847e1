"""What the exit code of a command says."""

DONE, FAILED, BAD_INPUT, INCONCLUSIVE, INTERNAL_ERROR = range(5)
INTERRUPTED, CLOSED_PIPE, TERMINATED = 130, 141, 143

VERDICTS = {"PASS": DONE, "FAIL": FAILED, "INCONCLUSIVE": INCONCLUSIVE}
"""The exit code of each verdict."""
