"""Histories beside real ones: rows per entity, gaps, transitions, what stays constant, and the next event."""
