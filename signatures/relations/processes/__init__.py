"""Ranks that died, stopped, spin or deadlock by themselves."""
