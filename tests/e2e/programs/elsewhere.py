"""Nonblocking sends to a rank that is outside MPI until all calls have returned: elsewhere.py FILE, which does not exist."""

import os
import sys
import time

import numpy as np
from mpi4py import MPI

COUNT = 200
world = MPI.COMM_WORLD
for size in (0, 8, 100, 1000, 8000, 16000, 60000):
    returned = f"{sys.argv[1]}.{size}"
    if world.rank == 0:
        out = [np.full(size, i, np.uint8) for i in range(COUNT)]
        requests = [world.Isend([data, MPI.BYTE], dest=1, tag=7) for data in out]
        open(returned, "w").close()
        world.Barrier()  # the other comes here when it has received all: they leave meanwhile
        MPI.Request.Waitall(requests)
        continue
    until = time.monotonic() + 60
    while not os.path.exists(returned):
        if time.monotonic() > until:
            print(f"elsewhere: rank 0 waits in a send of {size} bytes", file=sys.stderr, flush=True)
            world.Abort(1)
        time.sleep(0.001)
    into = np.empty(size, np.uint8)
    for i in range(COUNT):
        world.Recv([into, MPI.BYTE], source=0, tag=7)
        assert (into == i).all(), f"message {i} of {size} bytes is {into[:8]}"
    world.Barrier()
if world.rank == 0:
    print("elsewhere: ok")
