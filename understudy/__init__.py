"""The application: a job file in, a table with the evidence for releasing it out."""
