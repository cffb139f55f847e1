"""The evidence bundle: a folder whose manifest names every file, that can be signed, verified, signed off, withdrawn.

What verification proves and what it does not is in `docs/how-to/bundle.md`.
"""
