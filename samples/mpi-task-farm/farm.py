"""A master hands out pieces of an integral; each worker asks for the next as soon as it is done."""

import math

from mpi4py import MPI

STEPS = 400_000
comm = MPI.COMM_WORLD

if comm.Get_rank() == 0:
    status = MPI.Status()
    total, done = 0.0, 0
    while done < 100_000:
        total += comm.recv(source=MPI.ANY_SOURCE, status=status)
        done += 1
        comm.send(done, dest=status.Get_source())
        if done % 10 == 0:
            print(f"{done} pieces done", flush=True)
else:
    comm.send(0.0, dest=0)
    while True:
        piece = comm.recv(source=0)
        area = 0.0
        for number in range(STEPS * comm.Get_rank()):
            x = piece + number / STEPS
            area += math.exp(-x * x) / STEPS
        comm.send(area, dest=0)
