"""Hangs of collectives, process groups and MPI calls."""
