"""Rank states: where each rank stands, from whichever evidence tells."""
