"""A rank dies in the middle of an epoch; the others report the errors that they get.

usage: window_death.py CASE FOLDER RANKS. Rank 1 is killed by its own hand. Who survives writes what it saw to
FOLDER/RANK, and ends without MPI_Finalize, which would wait for the dead. Each rank is the child of a
process that ends when all survivors have written: a launcher that sees a death ends the others.
"""
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

CASE, FOLDER, RANKS = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
VICTIM = 1


def wait_for_survivors():
    while len([path for path in FOLDER.iterdir() if path.name.isdigit()]) < RANKS - 1:
        time.sleep(0.02)


if len(sys.argv) == 4:  # with what the launcher has left open, by which it talks to its ranks
    subprocess.run([sys.executable, *sys.argv, "as rank"], close_fds=False)
    wait_for_survivors()
    sys.exit(0)

import numpy as np  # noqa: E402
from mpi4py import MPI  # noqa: E402
from own_segments import own_segments  # noqa: E402

comm = MPI.COMM_WORLD
rank = comm.rank
(FOLDER / f"segments-{rank}").write_text("\n".join(own_segments()))

window = MPI.Win.Allocate(64, 8, comm=comm)
window.Set_errhandler(MPI.ERRORS_RETURN)
memory = np.frombuffer(window.tomemory(), "i8")


def group_of(*members):
    return comm.group.Incl(list(members))


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def origin():
    """The target waits for it in MPI_Win_wait."""
    if rank == VICTIM:
        window.Start(group_of(0))
        window.Put(np.full(1, 5), 0)
        die()
    if rank == 0:
        window.Post(group_of(VICTIM))
        window.Wait()


def target():
    """It never opens its segment."""
    if rank == VICTIM:
        die()
    window.Start(group_of(VICTIM))


def fence():
    window.Fence()
    if rank == VICTIM:
        die()
    window.Fence()


def lock():
    """The victim holds rank 0's segment exclusively; the next rank gets the lock."""
    if rank == VICTIM:
        window.Lock(0, MPI.LOCK_EXCLUSIVE)
        window.Put(np.full(1, 5), 0)
    comm.Barrier()
    if rank == VICTIM:
        die()
    got = np.zeros(2, "i8")
    window.Lock(0, MPI.LOCK_EXCLUSIVE)
    window.Put(np.full(1, 70 + rank), 0, rank)
    window.Flush(0)
    window.Get(got[:1], 0, rank)
    window.Unlock(0)
    assert got[0] == 70 + rank, got
    window.Lock(0, MPI.LOCK_SHARED)
    window.Get(got[:1], 0, rank)
    window.Unlock(0)
    assert got[0] == 70 + rank, got
    return "the lock was taken over"


try:
    seen = {"origin": origin, "target": target, "fence": fence, "lock": lock}[CASE]() or "nothing"
except MPI.Exception as error:
    seen = error.error_string
(FOLDER / f"{rank}.part").write_text(seen)
(FOLDER / f"{rank}.part").rename(FOLDER / str(rank))
wait_for_survivors()  # who is gone cannot be locked, and the others may not have done so yet
os._exit(0)
