"""Fidelity: how close synthetic rows come to real ones, in columns, in pairs and triples of them, and as whole rows."""
