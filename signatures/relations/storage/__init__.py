"""Data loading, storage and network peers outside the job."""
