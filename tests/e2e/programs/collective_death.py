"""Rank 1 is killed between two collectives; the other ranks report the errors that they get.

usage: collective_death.py COUNT FOLDER RANKS. Each survivor writes the results of two calls to FOLDER/RANK, and ends
without MPI_Finalize, which would wait for the dead rank. A launcher that sees a death kills the other ranks; so each
rank is the child of a process that ends only when all survivors have written.
"""
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

COUNT, FOLDER, RANKS = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])


def wait_for_survivors():
    while len([path for path in FOLDER.iterdir() if path.name.isdigit()]) < RANKS - 1:
        time.sleep(0.02)


if len(sys.argv) == 4:  # with what the launcher has left open, by which it talks to its ranks
    subprocess.run([sys.executable, *sys.argv, "as rank"], close_fds=False)
    wait_for_survivors()
    sys.exit(0)

import numpy as np  # noqa: E402
from mpi4py import MPI  # noqa: E402

comm = MPI.COMM_WORLD
comm.Set_errhandler(MPI.ERRORS_RETURN)
own, total = np.ones(COUNT), np.zeros(COUNT)
for call in range(10):
    comm.Allreduce(own, total)
if comm.rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
told = []
for call in range(2):
    try:
        comm.Allreduce(own, total)
        told.append("nothing")
    except MPI.Exception as error:
        told.append(str(error))
(FOLDER / f"{comm.rank}.part").write_text("\n".join(told))
(FOLDER / f"{comm.rank}.part").rename(FOLDER / str(comm.rank))
wait_for_survivors()
os._exit(1)
