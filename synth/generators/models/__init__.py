"""Fitted models: rows drawn from them, on conditions, under constraints, of entities, into files."""
