"""A simulation exchanges the edges of its sub-domains by MPI, each exchange with the next tag.

Every rank counts its exchanges. Rank 2 refines its mesh in the fourth step and counts the exchange
that it would have needed for it, though its neighbours do not refine: from then on it sends with
a tag that the next rank does not wait for.
"""

import time

import numpy as np
from mpi4py import MPI

EDGE = 200_000  # values, too many to be sent before somebody receives them


class Edges:
    """Exchanges edges with the neighbours in a ring."""

    def __init__(self, comm: MPI.Comm) -> None:
        """Begin to count."""
        self.comm = comm
        self.left = (comm.rank - 1) % comm.size
        self.right = (comm.rank + 1) % comm.size
        self.exchanges = 0

    def exchange(self, edge: np.ndarray) -> np.ndarray:
        """Send to the right, and receive from the left; even ranks send first."""
        self.exchanges += 1
        left, right, tag = self.left, self.right, self.exchanges
        received = np.empty_like(edge)
        if self.comm.rank % 2 == 0:
            self.comm.Send(edge, dest=right, tag=tag)
            self.comm.Recv(received, source=left, tag=tag)
        else:
            self.comm.Recv(received, source=left, tag=tag)
            self.comm.Send(edge, dest=right, tag=tag)
        return received


def main() -> None:
    """Compute step by step."""
    comm = MPI.COMM_WORLD
    edges = Edges(comm)
    edge = np.full(EDGE, float(comm.rank))
    for step in range(1, 1000):
        edge = 0.5 * (edge + edges.exchange(edge))
        if comm.rank == 2 and step == 4:
            edges.exchanges += 1  # of the refined mesh
        print(f"rank {comm.rank}, step {step}", flush=True)
        time.sleep(0.2)


if __name__ == "__main__":
    main()
