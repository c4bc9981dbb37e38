"""Rank states: what each rank does or how it ended, from whichever evidence there is."""
