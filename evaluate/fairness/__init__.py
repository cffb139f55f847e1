"""Whether synthetic rows serve every group of people alike, for each column that the schema calls sensitive."""
