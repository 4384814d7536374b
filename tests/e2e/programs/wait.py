"""Ranks exchange messages until they are killed, rank 0 saying once that all are there."""
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
memory = MPI.Alloc_mem(64)  # in the pool, to which the rank is attached a second time for it
comm.Barrier()
if comm.rank == 0:
    print("all there", flush=True)
rounds = int(sys.argv[1]) if len(sys.argv) > 1 else None
while rounds is None or rounds > 0:
    comm.allreduce(comm.rank)
    rounds = rounds - 1 if rounds is not None else None
