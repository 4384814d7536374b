"""MPI_THREAD_SERIALIZED: one thread puts, another ends the epoch."""
import threading

import mpi4py

mpi4py.rc.thread_level = "serialized"
import numpy as np  # noqa: E402
from mpi4py import MPI  # noqa: E402

comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size
ROUNDS = 100
assert MPI.Query_thread() == MPI.THREAD_SERIALIZED, "the MPI gives another level"

window = MPI.Win.Allocate(8, 8, comm=comm)
np.frombuffer(window.tomemory(), "i8")[:] = 0
window.Fence()
begun, ended = threading.Semaphore(0), threading.Semaphore(0)


def end():
    for _ in range(ROUNDS):
        begun.acquire()
        window.Unlock(0)
        ended.release()


other = threading.Thread(target=end)
other.start()
value = np.empty(1, "i8")
for _ in range(ROUNDS):
    window.Lock(0, MPI.LOCK_EXCLUSIVE)
    window.Get(value, 0)
    value += 1
    window.Put(value, 0)
    begun.release()
    ended.acquire()
other.join()
window.Fence()
if rank == 0:
    total = np.frombuffer(window.tomemory(), "i8")[0]
    assert total == ranks * ROUNDS, f"{total} of {ranks * ROUNDS} sums"
    print("window turns: ok", flush=True)
window.Free()
