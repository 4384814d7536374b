"""Windows and memory of MPI made and freed again and again: nothing of the pool is used up.

usage: window_cycles.py PENSTOCK WINDOWS BLOCKS, with PENSTOCK_POOL named. Each cycle makes a window, or a
block of memory, of another size; some are there at once.
"""
import json
import os
import subprocess
import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
for _ in range(4):
    comm.Barrier()  # by now the communicator has its own space in the pool
PENSTOCK, WINDOWS, BLOCKS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
KEPT = 4
SIZES = [8, 64, 1000, 4096, 100_000, 0, 300_000, 24]


def bytes_used():
    """The pool's usage while all ranks are attached, since leaving frees memory that a cycle may have leaked."""
    comm.Barrier()
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    used = None
    if comm.rank == 0:
        said = subprocess.run([PENSTOCK, "pool", "info", "--json", os.environ["PENSTOCK_POOL"]], check=True,
                              capture_output=True, env=environment).stdout
        used = json.loads(said)["bytes_used"]
    return comm.bcast(used)


def make_windows(count):
    kept = []
    for number in range(count):
        size = SIZES[(number + comm.rank) % len(SIZES)]
        window = MPI.Win.Allocate(size, 1, comm=comm)
        if number % 100 == 0 and size != 0:
            memory = np.frombuffer(window.tomemory(), "u1")
            memory[:] = number % 256  # whatever stood there before, nobody else stores to it
            assert (memory == number % 256).all()
        if number % 7 == 0:
            kept.append(window)
        else:
            window.Free()
        if len(kept) > KEPT:
            kept.pop(number % KEPT).Free()
    for window in kept:
        window.Free()


def make_blocks(count):
    kept = []
    for number in range(count):
        kept.append(MPI.Alloc_mem(SIZES[number % len(SIZES)] + 1))
        if len(kept) > KEPT:
            MPI.Free_mem(kept.pop(number % KEPT))
    for block in kept:
        MPI.Free_mem(block)


for make, count in ((make_windows, WINDOWS), (make_blocks, BLOCKS)):
    make(30)
    before = bytes_used()
    make(count)
    after = bytes_used()
    assert after == before, f"{make.__name__}: {after - before} bytes of the pool are not given back"
if comm.rank == 0:
    print(f"window cycles: ok: {WINDOWS} windows, {BLOCKS} blocks", flush=True)
