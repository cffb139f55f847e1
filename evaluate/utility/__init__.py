"""What the synthetic table is good for: models trained on it."""
