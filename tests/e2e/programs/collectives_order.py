"""What orders loads and stores of a window that is reached by locks: each kind of blocking collective call.

But those of arrays of counts, of which mpi4py takes the forms with large counts where the MPI has them.
Prints the calls after which a plain load found old bytes, or a get of a peer did.
"""
import numpy as np
from mpi4py import MPI

ROUNDS = 10
PLACES = 100, 5000  # words that the neighbour puts to
OWN = 200           # word that this rank stores to
WORD = 8

comm = MPI.COMM_WORLD
n, me = comm.size, comm.rank
ring = comm.Create_cart([n], periods=[True])
win = MPI.Win.Allocate(1 << 16, 1, MPI.INFO_NULL, comm)
mem = np.frombuffer(win.tomemory(), dtype=np.int64)
mem[:] = 0
ones, all_ones, two = np.zeros(1, "i"), np.zeros(n, "i"), np.zeros(2, "i")
CALLS = {
    "barrier": comm.Barrier,
    "allgather in place": lambda: comm.Allgather(MPI.IN_PLACE, np.zeros(n, "i")),
    # (comm.allreduce of an object is messages and a broadcast, which nobody waits for)
    "allreduce": lambda: comm.Allreduce(ones, np.zeros(1, "i")),
    "alltoall": lambda: comm.alltoall([0] * n),
    "reduce_scatter_block": lambda: comm.Reduce_scatter_block(all_ones, ones),
    "neighbor_allgather": lambda: ring.Neighbor_allgather(ones, np.zeros(2, "i")),
    "neighbor_alltoall": lambda: ring.Neighbor_alltoall(two, np.zeros(2, "i")),
    "comm_dup": lambda: comm.Dup().Free(),
    "comm_split": lambda: comm.Split(0, me).Free(),
}

win.Lock_all()
target, value, wrong = (me + 1) % n, 0, {}
for name, call in CALLS.items():
    for _ in range(ROUNDS):
        value += 1
        comm.Barrier()
        copies = [mem[place] for place in PLACES]  # are in the cache from now on
        new = np.array([value], dtype=np.int64)
        for place in PLACES:
            win.Put([new, MPI.INT64_T], target, [place * WORD, 1, MPI.INT64_T])
        win.Flush(target)
        call()
        old = max(copies) > value or any(mem[place] != value for place in PLACES)
        mem[OWN] = 10 * value
        call()
        found = np.zeros(1, np.int64)
        win.Get([found, MPI.INT64_T], target, [OWN * WORD, 1, MPI.INT64_T])
        win.Flush(target)
        wrong[name] = wrong.get(name, 0) + (old or found[0] != 10 * value)
win.Unlock_all()
wrong = [name for name in CALLS if comm.allreduce(int(wrong[name]))]
if me == 0:
    print("collectives: wrong:" if wrong else "collectives: ok", *wrong, flush=True)
win.Free()
