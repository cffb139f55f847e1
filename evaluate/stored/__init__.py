"""Tables of an evaluation that stay where they are stored: drawn, counted and compared there.

`preparing` makes them ready, `sides` and `tables` are what measures are given, `draws` their samples, `keys` and
`meeting` how rows of several tables are compared, `notes` what is said of samples, `sessions` what a time limit leaves.
"""
