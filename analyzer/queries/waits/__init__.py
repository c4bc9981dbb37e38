"""Who waits for whom: ranks that lag, calls that cannot meet, counts that differ."""
