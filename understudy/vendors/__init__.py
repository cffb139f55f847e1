"""Synthetic tables of several vendors, measured on the same terms, judged before they are ranked."""
