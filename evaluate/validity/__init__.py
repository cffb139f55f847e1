"""Validity of synthetic rows: whether they keep the rules of the schema."""
