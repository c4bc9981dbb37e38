"""What GPUs, networks, hosts and schedulers show."""
