"""Differential privacy: events, what they cost, the noise they allow, and who draws it."""
