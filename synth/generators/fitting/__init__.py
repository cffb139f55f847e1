"""Parts of a fit: its rows, single columns measured, marginals chosen."""
