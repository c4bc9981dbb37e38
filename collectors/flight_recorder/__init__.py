"""Dumps of the flight recorder of torch, read without running anything of them."""
