"""Utility: what the synthetic table is good for, by models trained on it and by queries that it answers."""
