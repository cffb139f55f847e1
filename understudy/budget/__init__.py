"""The privacy budget: the account that pays for private fits, and the composition of a release."""
