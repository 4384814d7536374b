"""Programs without a blocking collective: their communicators come to the pool too, all ranks in the same call.

Ranks are late in turns, and wait for messages of each other between two calls, of which none may wait for a late rank.
"""
import random
import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
draw = random.Random(int(sys.argv[1]))
for turn in range(4):
    comm = world.Dup() if turn else world
    outstanding = []
    for number in range(30):
        late = draw.randrange(comm.size)
        # The late rank makes this call when all others have made it.
        if comm.rank == late:
            for other in range(comm.size):
                if other != late:
                    world.Recv(np.zeros(1), other, number)
        given, got = np.full(50, number + comm.rank + 1.0), np.zeros(50)
        outstanding.append((comm.Iallreduce(given, got), given, got, number))
        if comm.rank != late:
            world.Send(np.zeros(1), late, number)
        if draw.random() < 0.3:
            MPI.Request.Waitall([request for request, *_ in outstanding])
            for _, _, got, of in outstanding:
                assert (got == sum(of + rank + 1.0 for rank in range(comm.size))).all(), (of, got[0])
            outstanding = []
    MPI.Request.Waitall([request for request, *_ in outstanding])
    if turn == 1:  # freed before it was agreed on
        short = world.Dup()
        requests = [short.Ibarrier() for _ in range(3)]
        short.Free()
        MPI.Request.Waitall(requests)
    if turn:
        comm.Free()
print("nonblocking only: ok", flush=True)
