"""From the aligned job to what a person reads."""
