"""Puts into one window, which an atomic operation announces, mostly in another one, and plain loads of them. The argument says how."""

import sys

import numpy as np
from mpi4py import MPI

how = sys.argv[1]
world = MPI.COMM_WORLD
rank, rounds, words = world.rank, 50, 64
integer = MPI.INT.Get_size()
data = MPI.Win.Allocate(words * integer, integer, comm=world)
flag = data if how == "one window" else MPI.Win.Allocate(integer, integer, comm=world)
windows = [data] if how == "one window" else [data, flag]
flag_at = words - 1 if how == "one window" else 0
numbers, told = np.frombuffer(data, "i4"), np.frombuffer(flag, "i4")
numbers[:] = 0
told[:] = 0
world.Barrier()
held = how in ("one window", "compare", "sync")
for window in windows:
    if held:
        window.Lock_all()
world.Barrier()


def put(number):
    if not held:
        data.Lock(0)
    data.Put([np.full(words - 1, number, "i4"), MPI.INT], 0)
    if held:
        data.Flush(0)
        flag.Accumulate([np.ones(1, "i4"), MPI.INT], 0, [flag_at, 1, MPI.INT])
        flag.Flush(0)
        return
    data.Unlock(0)
    flag.Lock(0)
    flag.Accumulate([np.ones(1, "i4"), MPI.INT], 0)
    flag.Unlock(0)


def look():
    found = np.zeros(1, "i4")
    if how == "sync":
        flag.Sync()
        return told[0]
    if how == "compare":
        flag.Compare_and_swap([found, MPI.INT], [found, MPI.INT], [found, MPI.INT], 0)
        flag.Flush(0)
    elif how == "own lock":
        flag.Lock(0, MPI.LOCK_SHARED)
        found[0] = told[0]
        flag.Unlock(0)
    else:
        if not held:
            flag.Lock(0, MPI.LOCK_SHARED)
        flag.Fetch_and_op([found, MPI.INT], [found, MPI.INT], 0, flag_at, MPI.NO_OP)
        flag.Flush(0)
        if not held:
            flag.Unlock(0)
    return found[0]


stale = 0
for number in range(1, rounds + 1):
    if rank == 1:
        put(number)
    elif rank == 0:
        while look() < number:
            pass
        stale += int((numbers[: words - 1] != number).any())
    world.sendrecv(number, 1 - rank)
for window in windows:
    if held:
        window.Unlock_all()
model = data.Get_attr(MPI.WIN_MODEL)
del numbers, told
for window in windows:
    window.Free()
assert stale == 0, f"{stale} of {rounds} rounds found old bytes"
print(f"two windows: ok, {model == MPI.WIN_UNIFIED}\n", end="", flush=True)
