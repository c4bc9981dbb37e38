"""Look at a live job: its processes, ranks, stacks, sockets and what torch keeps in them."""
