"""Verdicts that are no hang: all is done, healthy, idle; and evidence that is not safe to read."""
