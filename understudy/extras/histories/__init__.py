"""Histories: rows of an entity that follow each other in an order."""

_HERE = "understudy.extras.histories"
BRINGS = {
    "measure": {
        "fidelity.histories": f"{_HERE}.fidelity",
        "utility.next_event": f"{_HERE}.next_event",
        "privacy.histories": f"{_HERE}.privacy",
    },
    "figure": {"histories": f"{_HERE}.fidelity:HistoryFigures"},
    "membership": {"whole histories": f"{_HERE}.privacy:membership"},
    "proposal": {"histories": f"{_HERE}.proposal:propose"},
    "section": {"histories": f"{_HERE}.report:SECTION"},
    "self-test": {"dealt": f"{_HERE}.fidelity:DEALT"},
    "wrapper": {"histories": f"{_HERE}.wrapper:WithHistories"},
}
