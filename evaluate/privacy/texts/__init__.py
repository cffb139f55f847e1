"""Attacks on free text: repeated sentences, personal data, membership, and canary sentences."""
