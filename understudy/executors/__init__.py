"""Executors: processes on this machine, or workers elsewhere, that do the work of runs and batches.

`executor` has the protocol, and chooses. `processes` supervises local processes, and `child` is the life of one of
them. What works elsewhere is brought by extras: "executor" (the scheme of an address -> a class that takes an address,
a `Service` and a size), and "counting" (-> a context that maps functions over parts of a table).
"""
