"""Exports of an evaluation in formats of others: CSV, JUnit XML, Markdown."""
