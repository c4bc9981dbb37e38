"""The job: who its ranks, launchers and hosts are."""
