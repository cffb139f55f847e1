"""Free text: distances, agreement with the other columns, and what is repeated of the training texts."""
