"""Validity of synthetic rows: whether they keep the rules of the schema, in memory or where a table is stored."""
