"""Stands in for the importer: the source says what to do."""
