"""Privacy: attacks that say what can be learned of the training rows, and audits of a claimed epsilon."""
