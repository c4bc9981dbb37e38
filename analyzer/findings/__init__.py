"""Findings: signatures, users' cards, which finding explains which, the verdict."""
