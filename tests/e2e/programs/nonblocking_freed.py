"""A thread waits for a nonblocking call of a communicator that the main thread frees meanwhile, as MPI allows."""

import sys
import threading
import time

import mpi4py

mpi4py.rc.thread_level = "multiple"
import numpy as np  # noqa: E402
from mpi4py import MPI  # noqa: E402

lasting = MPI.COMM_WORLD.Dup()
for turn in range(int(sys.argv[1])):
    comm = lasting.Dup()
    for _ in range(3):
        comm.Barrier()
    data = np.full(10, turn if comm.rank == 0 else -1)
    if comm.rank == 0:
        lasting.Recv(np.zeros(1), 1, 5)  # the other has freed it
        comm.Ibcast(data, 0).Wait()
        comm.Free()
    else:
        waiter = threading.Thread(target=comm.Ibcast(data, 0).Wait)
        waiter.start()
        time.sleep(0.0003 + 0.0002 * (turn % 7) / 7)
        comm.Free()
        lasting.Send(np.zeros(1), 0, 5)
        waiter.join()
    assert (data == turn).all(), (turn, data)
print("freed: ok", flush=True)
