"""The gate: from an evaluation and a written policy to a verdict, for a notebook and the command line alike.

A policy's rules limit the numbers of a table (`policy`), each rule comes to a finding (`finding`), and the findings to
a verdict (`verdict`). Privacy is judged by the claim of all that counts with a table (`claim`, `protection`).
"""
