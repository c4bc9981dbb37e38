"""What the logs of ranks tell of them: their last lines, how they ended, and by whose clock."""
