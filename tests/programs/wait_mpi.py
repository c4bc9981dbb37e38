"""Ranks that wait in MPI: ``mpirun -np 2 python wait_mpi.py NAME``; rank 1 is elsewhere."""

from __future__ import annotations

import sys
import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
a, b, wide = np.ones(4), np.ones(4), np.ones(8)

CALLS = {
    "barrier": lambda: comm.Barrier(),
    "allreduce": lambda: comm.Allreduce(a, b),
    "allreduce_objects": lambda: comm.allreduce(1),
    "bcast": lambda: comm.Bcast(a, 1),
    "bcast_objects": lambda: comm.bcast(None, 1),
    "reduce": lambda: comm.Reduce(a, b),
    "gather_objects": lambda: comm.gather(1),
    "allgather": lambda: comm.Allgather(a, wide),
    "alltoall": lambda: comm.Alltoall(a, b),
    "scan": lambda: comm.Scan(a, b),
    "recv": lambda: comm.Recv(a, 1),
    "recv_objects": lambda: comm.recv(source=1),
    "send": lambda: comm.Send(np.ones(1 << 20), 1),
    "sendrecv": lambda: comm.Sendrecv(a, 1, recvbuf=b, source=1),
    "probe": lambda: comm.Probe(1),
    "wait": lambda: comm.Irecv(a, 1).Wait(),
    "waitall": lambda: MPI.Request.Waitall([comm.Irecv(a, 1)]),
    "comm_dup": lambda: comm.Dup(),
    "comm_split": lambda: comm.Split(0, comm.rank),
    "win_allocate": lambda: MPI.Win.Allocate(8, comm=comm),
}

if comm.rank == 1:
    time.sleep(1000)
CALLS[sys.argv[1]]()
