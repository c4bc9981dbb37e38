"""What lines mean: a file for each kind of them, all listed in ``readers.py``."""
