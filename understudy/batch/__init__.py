"""Many jobs, each in a process of its own: what befalls one befalls no other, and a second start goes on.

`jobs` names the jobs of a batch, checks them, and tells which private releases no ledger adds up. `result` says what a
job came to, and why its verdict is no PASS. `run` has all of it done by an executor, save what an earlier start
finished, and `summary` writes it down.
"""
