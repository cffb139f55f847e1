"""Audits of a claimed epsilon, by canaries in the counts and in the steps that its fits draw."""
