"""Many jobs, each in a process of its own: what befalls one befalls no other, and a second start goes on.

`jobs` names the jobs of a batch and says what each came to; `run` has them done by an executor, save what is finished.
"""
