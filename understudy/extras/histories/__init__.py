"""Histories: rows of an entity that follow each other in an order."""

BRINGS = {
    "section": {"histories": "understudy.extras.histories.report:SECTION"},
    "wrapper": {"histories": "understudy.extras.histories.wrapper:WithHistories"},
}
