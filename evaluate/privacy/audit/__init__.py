"""Audits of a claimed epsilon, by what its fits draw: its noise, its choices, its measured domain and its split."""
