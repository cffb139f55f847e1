"""Several sites, one table: the sites' vectors are summed, and nobody sees one of them."""
