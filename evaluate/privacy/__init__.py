"""What an attacker learns of the training rows: copies, distances, membership."""
