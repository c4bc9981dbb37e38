"""Grab each kind of evidence from a live job, and read it back from files."""
