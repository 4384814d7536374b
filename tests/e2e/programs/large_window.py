"""Atomic operations of rank 0 beside a window, of so many megabytes, all of which rank 1 has reached by a lock."""

import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
size, page = int(sys.argv[1]) << 20, 4096
data = MPI.Win.Allocate(size, 1, comm=world)
counter = MPI.Win.Allocate(8, 8, comm=world)
np.frombuffer(counter, "i8")[:] = 0
world.Barrier()
if world.rank == 1:
    data.Lock(0, MPI.LOCK_SHARED)
    for at in range(0, size, page):
        data.Put([np.ones(8, "u1"), MPI.BYTE], 0, [at, 8, MPI.BYTE])
    data.Unlock(0)
world.Barrier()
one, old = np.ones(1, "i8"), np.zeros(1, "i8")
for number in range(3 if world.rank == 0 else 0):
    counter.Lock(1, MPI.LOCK_SHARED)
    counter.Fetch_and_op([one, MPI.INT64_T], [old, MPI.INT64_T], 1)
    counter.Unlock(1)
    assert old[0] == number
world.Barrier()
counter.Free()
data.Free()
if world.rank == 0:
    print("large window: ok", flush=True)
