"""The gate: from an evaluation and a written policy to a verdict, for a notebook and the command line alike."""
