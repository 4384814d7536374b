"""One rank comes late, so that the others wait in the call that the argument names; `penstock ps` shows it."""

import sys
import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
how, seconds = sys.argv[1], float(sys.argv[2])
window = MPI.Win.Allocate(64, 1, comm=comm)
comm.Barrier()
if comm.rank == 0:
    print("all there", flush=True)
late = comm.rank == comm.size - 1
if how == "lock":
    if late:
        window.Lock(0, MPI.LOCK_EXCLUSIVE)
    comm.Barrier()
    if late:
        time.sleep(seconds)
        window.Unlock(0)
    else:
        window.Lock(0, MPI.LOCK_EXCLUSIVE)
        window.Unlock(0)
else:
    if late:
        time.sleep(seconds)
    if how == "fence":
        window.Fence()
        window.Fence()
    elif how == "allreduce":
        comm.Allreduce(np.ones(1), np.empty(1))
comm.Barrier()
window.Free()
