"""Local differential privacy: surveys whose respondents trust no collector.

Each respondent randomizes their own answers (`oracles`), and only a report leaves them. Reports become marginals with a
known variance (`survey`), and these a table (`generator`).
"""

_HERE = "understudy.extras.local"
BRINGS = {
    "generator": {"local": f"{_HERE}.generator:Local"},
    "audit": {"local": f"{_HERE}.audit:audit_local"},
    "command": {"local": f"{_HERE}.commands:add_to"},
}
