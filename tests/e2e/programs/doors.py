"""Ranks make one collective call through different functions: with counts of int or of MPI_Count.

    doors.py LIBRARY

LIBRARY is libpenstock-mpi.so, whose functions are called by name: it has the large forms under every MPI.
"""
import ctypes
import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size
library = ctypes.CDLL(sys.argv[1])
large = rank % 2 == 0
ROOT = ranks - 1


def handle(of):
    kind = {4: ctypes.c_uint32, 8: ctypes.c_uint64}[MPI._sizeof(of)]
    return kind.from_address(MPI._addressof(of)).value


INT, SUM, COMM = handle(MPI.INT64_T), handle(MPI.SUM), handle(comm)


def numbers(of):
    return np.array(of, "i8" if large else "i4")


def call(name, *arguments):
    """Makes the call with this rank's function; blocking, then nonblocking."""
    words = [ctypes.c_uint64(a.ctypes.data if isinstance(a, np.ndarray) else a or 0) for a in arguments]
    suffix = "_c" if large else ""
    assert getattr(library, f"MPI_{name}{suffix}")(*words) == 0, name
    yield
    request = ctypes.c_uint64()
    assert getattr(library, f"MPI_I{name.lower()}{suffix}")(*words, ctypes.byref(request)) == 0, name
    ignored = np.zeros(100, "u1")
    assert library.MPI_Wait(ctypes.byref(request), ctypes.c_void_p(ignored.ctypes.data)) == 0
    yield


counts = [r + 1 for r in range(ranks)]
places = [r * (r + 1) // 2 for r in range(ranks)]
own = np.full(rank + 1, rank, "i8")
everyone = np.concatenate([np.full(r + 1, r) for r in range(ranks)])
total = len(everyone)
for turn in range(3):
    got = np.zeros(total, "i8")
    for _ in call("Allgatherv", own, rank + 1, INT, got, numbers(counts), numbers(places), INT, COMM):
        assert (got == everyone).all(), got
        got[:] = -1
    # The arrays count at the root alone.
    arrays = (numbers(counts), numbers(places)) if rank == ROOT else (None, None)
    for _ in call("Gatherv", own, rank + 1, INT, got, *arrays, INT, ROOT, COMM):
        assert rank != ROOT or (got == everyone).all(), got
        got[:] = -1
    part = np.zeros(rank + 1, "i8")
    for _ in call("Scatterv", everyone, *arrays, INT, part, rank + 1, INT, ROOT, COMM):
        assert (part == rank).all(), part
        part[:] = -1
    given = np.array([100 * rank + r for r in range(ranks)], "i8")
    one, at, back = numbers([1] * ranks), numbers(list(range(ranks))), numbers(list(range(ranks))[::-1])
    got = np.zeros(ranks, "i8")
    for _ in call("Alltoallv", given, one, at, INT, got, one, back, INT, COMM):
        assert (got == [100 * r + rank for r in range(ranks)][::-1]).all(), got
        got[:] = -1
    for _ in call("Reduce_scatter", everyone, part, numbers(counts), INT, SUM, COMM):
        assert (part == ranks * rank).all(), part
        part[:] = -1
print("doors: ok", flush=True)
