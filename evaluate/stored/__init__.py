"""Tables of an evaluation that stay where they are stored: drawn, counted and compared there.

`prepare` makes them ready, `tables` are what measures are given, with their draws, `keys` how rows of several tables
are compared, `sessions` what a time limit leaves. What is said of samples is in `evaluate.sample_notes`.
"""
