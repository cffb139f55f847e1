"""Differentially private release of numbers about a synthetic table, under a budget of their own.

Each number compares the source table with a synthetic table that is *fixed*: made under a guarantee, so that whoever
sees it learns nothing more by being told that it is the one compared with. One unit then moves each number by a known
amount, and the numbers are released like any other counts: whole numbers, discrete Gaussian noise, a schedule that is
written down before a row is read. All else that an evaluation says has no such bound, and stays inside.
"""
