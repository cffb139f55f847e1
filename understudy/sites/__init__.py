"""Several sites that build one synthetic table, none of which hands over its rows."""
