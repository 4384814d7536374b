"""Habits of programs written for MPI_WIN_UNIFIED: no window call surrounds their loads and stores.

usage: habits.py collective|unified. collective: only barriers and other collective calls order them; unified: a rank
also polls its memory, and stores to it beside what others put.
"""
import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size
right, left = (rank + 1) % ranks, (rank - 1) % ranks
CELLS, HALF = 4000, 2000
ROUNDS = 12

info = MPI.Info.Create()
info["penstock_window_model"] = sys.argv[1]


def meet(number):
    """All ranks, by calls of several kinds."""
    one, total, all_of_them = np.ones(1, "i8"), np.zeros(1, "i8"), np.zeros(ranks, "i8")
    [comm.Barrier, lambda: comm.Allreduce(one, total), lambda: comm.Allgather(one, all_of_them),
     lambda: comm.Alltoall(all_of_them.copy(), all_of_them), lambda: comm.allgather(number)][number % 5]()


def check(kind, window, memory):
    got = np.zeros(HALF, "i8")
    for number in range(ROUNDS):
        meet(number)
        memory[HALF:] = 1000 * rank + number  # the others only get it
        meet(number)
        window.Lock_all()
        window.Put(np.full(HALF, 77 * rank + number), right, 0)
        window.Get(got, left, HALF)
        window.Unlock_all()
        assert (got == 1000 * left + number).all(), f"rank {rank}, round {number}, {kind}: got {got[0]}"
        meet(number + 1)
        assert (memory[:HALF] == 77 * left + number).all(), f"rank {rank}, round {number}, {kind}: found {memory[0]}"


def poll(window, memory):
    """Cells in turn: own ones, and those of the left neighbour, who must not lose what is stored beside."""
    memory[:] = -1
    comm.Barrier()
    window.Lock_all()
    for number in range(ROUNDS):
        memory[0:200:2] = number
        window.Put(np.full(1, number), right, 2 * number + 1)
        window.Flush(right)
        while memory[2 * number + 1] != number:
            comm.Iprobe()
    window.Unlock_all()
    comm.Barrier()
    assert (memory[0:200:2] == ROUNDS - 1).all(), f"rank {rank}: own cells {memory[0:200:2]}"
    assert (memory[1:2 * ROUNDS:2] == np.arange(ROUNDS)).all(), f"rank {rank}: cells {memory[1:2 * ROUNDS:2]}"


for kind in ("allocated", "created"):
    if kind == "allocated":
        window = MPI.Win.Allocate(8 * CELLS, 8, info, comm)
        memory = np.frombuffer(window.tomemory(), "i8")
    else:
        block = MPI.Alloc_mem(8 * CELLS)
        window = MPI.Win.Create(block, 8, info, comm)
        memory = np.frombuffer(block, "i8")
    expected = MPI.WIN_UNIFIED if sys.argv[1] == "unified" else MPI.WIN_SEPARATE
    assert window.Get_attr(MPI.WIN_MODEL) == expected, f"model {window.Get_attr(MPI.WIN_MODEL)}"
    check(kind, window, memory)
    if sys.argv[1] == "unified":
        poll(window, memory)
    window.Free()
    del memory
MPI.Free_mem(block)
if rank == 0:
    print(f"habits: ok: {sys.argv[1]}, {ranks} ranks", flush=True)
