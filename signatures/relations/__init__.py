"""Signatures over relations between ranks: stacks, recorders, settings, the state of machines."""
