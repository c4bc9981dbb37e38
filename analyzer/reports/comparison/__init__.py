"""Two reports against each other: of one job at two times, or of two incidents."""
