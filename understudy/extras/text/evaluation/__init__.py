"""What is measured of free text: six numbers of fidelity, models of its row, and two attacks."""
