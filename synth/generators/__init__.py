"""Generators of synthetic tables: one protocol, one registry, a module for each generator.

`fitting` holds what their fits share, `models` what is fitted and how rows are drawn from it.
"""
