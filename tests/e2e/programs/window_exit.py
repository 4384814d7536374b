"""Rank 1 ends without MPI_Win_free and MPI_Finalize, and the others may still put to its memory.

usage: window_exit.py PENSTOCK SPEC. Rank 0 prints the objects that rank 1 took along, and puts to rank 1 once more.
"""
import json
import os
import subprocess
import sys
import time

import mpi4py

mpi4py.rc.finalize = False
import numpy as np  # noqa: E402
from mpi4py import MPI  # noqa: E402

command, spec = sys.argv[1:]
comm = MPI.COMM_WORLD


def objects():
    said = ""
    while not said:  # the launcher tells of an end by a signal to the group
        said = subprocess.run([command, "pool", "ls", "--all", "--json", spec], check=False, capture_output=True, text=True).stdout
    return {entry["name"] for entry in json.loads(said) if entry["name"].startswith("penstock.mpi.")}


allocated = MPI.Win.Allocate(1 << 20, 8, comm=comm)
created = MPI.Win.Create(MPI.Alloc_mem(64 << 10), 8, comm=comm)
windows = [allocated, created]
value = np.full(1, 7, "i8")
for window in windows:
    window.Set_errhandler(MPI.ERRORS_RETURN)
    window.Lock_all()
    window.Put(value, 1 - comm.rank)
    window.Flush_all()
pid = comm.bcast(os.getpid(), 1)
before = objects() if comm.rank == 0 else None
comm.Barrier()
if comm.rank == 1:
    sys.exit(0)  # with exit handlers
while True:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            if stat.read().rsplit(") ", 1)[1][0] == "Z":
                break
    except OSError:
        break
    time.sleep(0.02)
print("gone with rank 1:", sorted(before - objects()), "of", len(before), flush=True)
for window in windows:
    window.Put(value, 1)
os._exit(0)
