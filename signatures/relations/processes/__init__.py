"""Ranks, launchers and hosts that ended, stopped or do not answer."""
