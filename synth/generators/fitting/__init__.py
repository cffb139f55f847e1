"""Parts of a fit: its rows, its fixed costs, single columns measured, marginals chosen."""
