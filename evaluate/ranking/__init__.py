"""Ranking of several synthetic tables of one real table: which is better, by which figure, and which are alike."""
