"""MPI_THREAD_MULTIPLE: threads that each work on a window of their own, at once."""
import threading

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size
right, left = (rank + 1) % ranks, (rank - 1) % ranks
THREADS, ROUNDS, CELLS = 2, 100, 500
assert MPI.Query_thread() == MPI.THREAD_MULTIPLE, "the MPI gives no MPI_THREAD_MULTIPLE"

comms = [comm.Dup() for _ in range(THREADS)]
wrong = []


def fences(window, memory, thread):
    sent = np.zeros(CELLS, "i8")
    window.Fence()
    for number in range(ROUNDS):
        sent[:] = 1000 * rank + number + thread
        window.Put(sent, right)
        window.Fence()
        assert (memory == 1000 * left + number + thread).all(), f"fence: round {number} of rank {rank}"
        window.Fence()


def locks(window, memory, thread):
    own, ones = comms[thread], np.ones(CELLS, "i8")
    window.Lock(rank, MPI.LOCK_EXCLUSIVE)
    memory[:] = 0
    window.Unlock(rank)
    own.Barrier()
    for _ in range(ROUNDS):
        window.Lock(right, MPI.LOCK_SHARED)
        window.Accumulate(ones, right)
        window.Unlock(right)
    own.Barrier()
    window.Lock(rank, MPI.LOCK_SHARED)
    assert (memory == ROUNDS).all(), f"lock: {memory[0]} of {ROUNDS} sums at rank {rank}"
    window.Unlock(rank)


def work(thread):
    try:
        for use in (fences, locks) if thread % 2 == 0 else (locks, fences):
            window = MPI.Win.Allocate(8 * CELLS, 8, comm=comms[thread])
            use(window, np.frombuffer(window.tomemory(), "i8"), thread)
            window.Free()
    except BaseException as error:
        wrong.append(f"thread {thread}: {error}")
        print(wrong[-1], flush=True)
        comm.Abort(1)


threads = [threading.Thread(target=work, args=(thread,)) for thread in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not wrong
if comm.allreduce(1) == ranks and rank == 0:
    print("window threads: ok", flush=True)
