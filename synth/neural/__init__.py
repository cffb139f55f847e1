"""Training networks on encoded rows, with differential privacy where it is asked for."""
