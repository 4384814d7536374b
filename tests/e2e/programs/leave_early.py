"""Ranks that end a window, or MPI itself, while others still reach them, without any barrier.

usage: leave_early.py free|finalize|many
"""
import sys
import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size
right, left = (rank + 1) % ranks, (rank - 1) % ranks
CELLS, STEP, STEPS = 60_000, 3000, 20


def reach_right(window):
    """Puts to and gets from ever new parts of the next rank's memory, which that must be asked for."""
    got = np.zeros((STEPS, STEP), "i8")
    window.Lock_all()
    for step in range(STEPS):
        window.Rput(np.full(STEP, 100 * rank + step), right, step * STEP).Wait()
        window.Flush(right)
        window.Rget(got[step], right, step * STEP).Wait()
    window.Unlock_all()
    assert (got == 100 * rank + np.arange(STEPS)[:, None]).all(), f"rank {rank} got something else"


def expect_left(memory):
    wanted = np.repeat(100 * left + np.arange(STEPS), STEP)
    wrong = np.flatnonzero(memory != wanted)
    assert not len(wrong), f"rank {rank}: {len(wrong)} cells wrong from {wrong[0]} on: {memory[wrong[0]]}"


def free():
    """Some leave at once, some late; all are put to, and find it afterwards."""
    for turn in range(4):
        block = MPI.Alloc_mem(8 * CELLS)
        memory = np.frombuffer(block, "i8")
        memory[:] = -1
        window = MPI.Win.Create(block, 8, comm=comm)
        if (rank + turn) % ranks == 0:
            time.sleep(0.1)
        reach_right(window)
        window.Free()
        expect_left(memory)
        del memory
        MPI.Free_mem(block)


def finalize():
    """Windows that are never freed: who is through ends MPI at once."""
    windows = [MPI.Win.Allocate(8 * CELLS, 8, comm=comm) for _ in range(2)]
    if rank == 0:
        time.sleep(0.5)
        for window in windows:
            reach_right(window)
    print(f"leave early: ok: rank {rank}", flush=True)
    MPI.Finalize()


def many():
    """The same, with windows that are not kept by the same rank, and that each rank has in another order."""
    backwards = comm.Split(key=-rank)
    own, kept = [], []
    for turn in range(20):
        own += [MPI.Win.Allocate(64, 1, comm=MPI.COMM_SELF) for _ in range(5 * (rank == 0))]  # other handles from now on
        kept.append(MPI.Win.Allocate(8192, 1, comm=backwards if turn % 2 else comm))
    for window in own:
        window.Free()
    print(f"leave early: ok: rank {rank}", flush=True)
    MPI.Finalize()


{"free": free, "finalize": finalize, "many": many}[sys.argv[1]]()
if sys.argv[1] == "free":
    print(f"leave early: ok: rank {rank}", flush=True)
