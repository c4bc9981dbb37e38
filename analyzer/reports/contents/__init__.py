"""What stands in a report, read off a case: rows of ranks and GPUs, stacks, story, time, waits."""
