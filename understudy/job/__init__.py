"""The job: its file as a specification, the sweep it asks for, its seeds, and its files once read."""
