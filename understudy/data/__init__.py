"""Data of a command: where a real table is, its rows, its split, and tables in parts."""
