"""Neighbours exchange messages whose contents change in every round; all of it is checked."""
import os
import signal
import sys

import numpy as np
from mpi4py import MPI

SIZES = (8, 56, 300, 448, 5000, 16384, 100_000, 300_000)


def contents(rank, number, size):
    return ((np.arange(size) * 7 + rank * 31 + number * 13) % 251).astype(np.uint8)


def give_up(*_):
    print(f"rank {comm.rank}: no message for too long", file=sys.stderr, flush=True)
    os._exit(3)


comm = MPI.COMM_WORLD
rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
signal.signal(signal.SIGALRM, give_up)
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
for number in range(rounds):
    for size in SIZES:
        signal.alarm(40)
        got = np.zeros(size, dtype=np.uint8)
        comm.Sendrecv(contents(comm.rank, number, size), right, recvbuf=got, source=left)
        wrong = np.flatnonzero(got != contents(left, number, size))
        if wrong.size:
            print(f"rank {comm.rank}: round {number}: {wrong.size} of {size} bytes are wrong, the "
                  f"first is byte {wrong[0]}", file=sys.stderr, flush=True)
            comm.Abort(2)
comm.Barrier()
signal.alarm(0)
if comm.rank == 0:
    print("exchange: ok", flush=True)
