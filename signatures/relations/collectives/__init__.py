"""Hangs of collectives and process groups."""
