"""MPI_THREAD_MULTIPLE: threads that each work on a window of their own, then all on one, at once."""
import threading

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size
right, left = (rank + 1) % ranks, (rank - 1) % ranks
THREADS, ROUNDS, CELLS, SHARED = 2, 100, 500, 5000
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
    for use in (fences, locks) if thread % 2 == 0 else (locks, fences):
        window = MPI.Win.Allocate(8 * CELLS, 8, comm=comms[thread])
        use(window, np.frombuffer(window.tomemory(), "i8"), thread)
        window.Free()


def share(window, thread):
    """All threads of all ranks add to the same cells, and write to some of their own."""
    one, old, own = np.ones(1, "i8"), np.empty(1, "i8"), np.empty(1, "i8")
    for number in range(ROUNDS):
        for target in range(ranks):
            place = 1 + 2000 * thread + 50 * rank + number % 50
            own[0] = number
            window.Put(own, target, target=[place, 1, MPI.INT64_T])
            window.Fetch_and_op(one, old, target, number % 2 * (SHARED - 1))
            window.Accumulate(one, target, target=[number % 2 * (SHARED - 1), 1, MPI.INT64_T])
            window.Flush(target)
            window.Get(old, target, target=[place, 1, MPI.INT64_T])
            window.Flush(target)
            assert old[0] == number, f"put: {old[0]}, not {number}"
    # Messages by the same communicator meanwhile, told apart by their tags.
    for number in range(ROUNDS):
        own[0] = 1000 * rank + number
        comm.Sendrecv(own, right, thread, old, left, thread)
        assert old[0] == 1000 * left + number, f"message: {old[0]}"


def lock_each(window, thread):
    """Each thread another target."""
    one = np.ones(1, "i8")
    for target in range(thread, ranks, THREADS):
        for _ in range(ROUNDS):
            window.Lock(target, MPI.LOCK_EXCLUSIVE)
            window.Accumulate(one, target, target=[0, 1, MPI.INT64_T])
            window.Unlock(target)


def guarded(use, *arguments):
    try:
        use(*arguments)
    except BaseException as error:
        wrong.append(f"{use.__name__} {arguments[-1]}: {error}")
        print(wrong[-1], flush=True)
        comm.Abort(1)


def in_threads(use, *arguments):
    threads = [threading.Thread(target=guarded, args=(use, *arguments, thread)) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def share_one():
    shared = MPI.Win.Allocate(8 * SHARED, 8, comm=comm)
    memory = np.frombuffer(shared.tomemory(), "i8")
    shared.Lock(rank, MPI.LOCK_EXCLUSIVE)
    memory[:] = 0
    shared.Unlock(rank)
    comm.Barrier()
    shared.Lock_all()
    in_threads(share, shared)
    shared.Unlock_all()
    comm.Barrier()
    in_threads(lock_each, shared)
    comm.Barrier()
    shared.Lock(rank, MPI.LOCK_SHARED)
    assert memory[0] + memory[-1] == ranks * ROUNDS * (2 * THREADS + 1), f"{memory[0]} and {memory[-1]} sums"
    shared.Unlock(rank)
    shared.Free()


in_threads(work)
share_one()
assert not wrong
if comm.allreduce(1) == ranks and rank == 0:
    print("window threads: ok", flush=True)
