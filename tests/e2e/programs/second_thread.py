"""Messages of a second thread, while the first one waits for it. The argument is the level that is asked for."""

import sys
import threading

import mpi4py

mpi4py.rc.thread_level = sys.argv[1]
from mpi4py import MPI  # noqa: E402

world = MPI.COMM_WORLD


def exchange():
    peer = 1 - world.rank
    found = world.sendrecv(world.rank, dest=peer, source=peer)
    assert found == peer, found


exchange()
thread = threading.Thread(target=exchange)
thread.start()
thread.join()
exchange()
given = MPI.Query_thread() == getattr(MPI, f"THREAD_{sys.argv[1].upper()}")
print(f"second thread: ok, level {given}\n", end="", flush=True)
