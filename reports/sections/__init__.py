"""Sections of the report as data: read from an evaluation that may hold anything, nothing is rendered."""
