"""Tracking of finished runs on an MLflow server: a record of plain data, and the process that sends it."""
