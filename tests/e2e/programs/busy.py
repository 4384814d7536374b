"""Ranks keep up one kind of traffic until they are killed; rank 0 reports when it has started."""
import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


def ring(count):
    out, got = np.full(count, comm.rank, dtype=np.uint8), np.empty(count, dtype=np.uint8)
    comm.Sendrecv(out, right, 0, got, left, 0)
    assert (got == left).all(), f"rank {comm.rank}: wrong bytes from {left}"


def collectives():
    total = comm.allreduce(comm.rank)
    assert total == comm.size * (comm.size - 1) // 2, total
    assert comm.bcast(comm.rank, root=comm.size - 1) == comm.size - 1
    assert comm.alltoall([comm.rank] * comm.size) == list(range(comm.size))


step = {"small": lambda: ring(8), "bulk": lambda: ring(1 << 20), "collectives": collectives}[sys.argv[1]]
step()
if comm.rank == 0:
    print("all there", flush=True)
while True:
    step()
