"""Signatures over the state of GPUs: broken ones, and who has launched what."""
