"""Histories: the rows of an entity in their order (panel data, sequential data), taken apart and put together."""
