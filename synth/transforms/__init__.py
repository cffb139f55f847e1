"""Encodings: rows to a network's input, and its output to rows."""
