"""What hangs look like: one file per known hang, and the table of frames that mean waiting."""
