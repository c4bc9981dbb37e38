"""Verdicts that are no hang, and what looks like one and is none."""
