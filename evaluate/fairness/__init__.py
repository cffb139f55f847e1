"""Fairness: quality of synthetic rows by group of people, for each column that the schema calls sensitive."""
