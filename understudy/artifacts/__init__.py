"""Artifacts of an evaluation: renderings, verdicts and model cards, as files."""
