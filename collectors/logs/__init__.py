"""Logs: find the few lines that matter, and take those apart."""
