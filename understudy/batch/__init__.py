"""Many jobs, each in a process of its own: what befalls one befalls no other, and a second start goes on.

`jobs` names the jobs of a batch, checks them, and tells which private releases no ledger adds up. `child` is the life
of a job's process, and `processes` starts and ends these. `result` says what a job came to, and why its verdict is no
PASS. `run` has all of it done, save what an earlier start finished, and `summary` writes it down.
"""
