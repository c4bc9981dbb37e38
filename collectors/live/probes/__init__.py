"""What is asked of a live job beside its stacks, one file for each kind of evidence."""
