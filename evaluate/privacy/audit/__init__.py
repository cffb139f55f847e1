"""Audits of a claimed epsilon: of the noise itself (white box), and of what synthetic tables give away (black box)."""
