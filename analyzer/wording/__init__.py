"""Words of a report, made in one place."""
