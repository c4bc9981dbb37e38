"""What stacks and processes tell of ranks: where each stands, and what serves or holds it."""
