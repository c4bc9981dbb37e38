"""Stack dumps of each tool that makes them, read into one record type."""
