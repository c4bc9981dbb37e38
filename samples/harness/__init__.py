"""Starts the samples, ends them, records their bundles, and holds reports against them."""
