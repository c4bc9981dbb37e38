"""Which processes of this host belong to a job, and what each is in it."""
