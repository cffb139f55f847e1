"""Many jobs, each in a process of its own: what befalls one befalls no other, and a second start goes on.

`listing` names the jobs of a batch and checks them, `earlier` tells which are finished already, `child` is the life of
a job's process, `workers` starts and ends these processes, `outcome` says what a job came to, `reasons` why its verdict
is no PASS, `uncounted` which private releases no ledger adds up, `conduct` has all of it done, and `summary` writes it
down.
"""
