"""How rows become what a network reads and writes, and back."""
