"""A program of its own, in a folder of its own: nothing beside it is taken for a library."""
