"""Generators of synthetic tables: one protocol, one registry."""
