"""MPI programs."""
