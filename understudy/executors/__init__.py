"""Executors: processes on this machine, or workers of a Dask cluster, that do the work of runs and batches.

`executor` has the protocol, and chooses. `processes` supervises local processes, and `child` is the life of one of
them. `cluster` hands work to a Dask cluster, where each piece again has such a process of its own.
"""
