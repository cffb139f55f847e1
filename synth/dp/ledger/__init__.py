"""The books of a privacy budget: totals, what was reserved of them and used, in a table that can only grow.

::

    ledger = open_ledger("sqlite:///ledger.db")
    ledger.open("patients", unit="patient_id", epsilon=3.0, delta=None, n_units=50_000)
    (reservation,) = ledger.reserve([Request(token, "patients", "patient_id", "mst", curve, schedule_hash)])
    ledger.use(token)           # before the first draw
    ledger.commit(token, {"epsilon": 1.0})
    ledger.note(token)          # what a privacy statement says of it

`records` holds entries, requests and what answers them, `state` the rules, `store` the databases, `ledger` the
operations.
"""

from synth.dp.ledger.ledger import Ledger, open_ledger
from synth.dp.ledger.records import Damage, Holding, LedgerEntry, Request, Reservation

__all__ = ["Damage", "Holding", "Ledger", "LedgerEntry", "Request", "Reservation", "open_ledger"]
