"""Start-up: rendezvous, stores, names and ports."""
