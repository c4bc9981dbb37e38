"""What lines of logs and a person's words say: of whom, and what failed."""
