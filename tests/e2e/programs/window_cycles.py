"""Windows and memory of MPI made and freed, again and again, on a pool that has no room for two rounds.

usage: window_cycles.py COUNT
"""
import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
COUNT = int(sys.argv[1])
KEPT = 4  # windows that are there at once
SIZES = [8, 64, 1000, 4096, 100_000, 0, 300_000, 24]

kept = []
for number in range(COUNT):
    size = SIZES[(number + comm.rank) % len(SIZES)]
    window = MPI.Win.Allocate(size, 1, comm=comm)
    if number % 100 == 0 and size != 0:
        memory = np.frombuffer(window.tomemory(), "u1")
        memory[:] = number % 256
        assert (memory == number % 256).all()
        del memory
    if number % 7 == 0:
        kept.append(window)
    else:
        window.Free()
    if len(kept) > KEPT:
        kept.pop(number % KEPT).Free()
while kept:
    kept.pop().Free()
held = []
for number in range(COUNT):
    held.append(MPI.Alloc_mem(max(1, SIZES[number % len(SIZES)])))
    if len(held) > KEPT:
        MPI.Free_mem(held.pop(number % KEPT))
while held:
    MPI.Free_mem(held.pop())
# While both are attached still: what goes when a process leaves is no cycle's merit.
comm.Barrier()
if comm.rank == 0:
    print(f"cycles: ok: {COUNT}", flush=True)
    if not sys.stdin.closed:
        sys.stdin.readline()
comm.Barrier()
