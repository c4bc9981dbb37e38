"""What several moments tell of ranks: who moves, whose step is long, whether the job goes on."""
