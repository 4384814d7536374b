"""MPI_Comm_spawn: ranks that are born later talk to their parents and to each other, in messages and in a window."""

import sys

import numpy as np
from mpi4py import MPI

CHILDREN = 2


def talk(comm, remote):
    """Both sides of the intercommunicator, all to all, long enough for every form of message."""
    for words in (1, 100, 40_000):
        sent = np.full(words, comm.rank, dtype=np.int64)
        received = [np.empty(words, dtype=np.int64) for _ in range(remote)]
        requests = [comm.Irecv(received[i], i, words) for i in range(remote)]
        requests += [comm.Isend(sent, i, words) for i in range(remote)]
        MPI.Request.Waitall(requests)
        for i, row in enumerate(received):
            assert (row == i).all(), (comm.rank, i, words)


def put_around(comm):
    memory = MPI.Win.Allocate(8, 8, comm=comm)
    value = np.array([comm.rank], dtype=np.int64)
    memory.Fence()
    memory.Put(value, (comm.rank + 1) % comm.size)
    memory.Fence()
    assert np.frombuffer(memory, dtype=np.int64)[0] == (comm.rank - 1) % comm.size
    memory.Free()


parent = MPI.Comm.Get_parent()
if parent == MPI.COMM_NULL:
    for _ in range(2):
        born = MPI.COMM_WORLD.Spawn(sys.executable, [__file__], CHILDREN)
        talk(born, CHILDREN)
        everybody = born.Merge(high=False)
        put_around(everybody)
        everybody.Free()
        born.Disconnect()
    if MPI.COMM_WORLD.rank == 0:
        print("spawn: ok")
else:
    talk(parent, parent.remote_size)
    everybody = parent.Merge(high=True)
    put_around(everybody)
    everybody.Free()
    parent.Disconnect()
