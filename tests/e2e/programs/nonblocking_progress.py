"""Collectives that do not block go on while a rank computes, receives, or is in other calls; and with threads.

usage: nonblocking_progress.py FOLDER
"""
import sys
import threading
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

FOLDER = Path(sys.argv[1])
world = MPI.COMM_WORLD
comm, other = world.Dup(), world.Dup()
for call in range(3):
    comm.Barrier()
    other.Barrier()
own, total = np.full(2_000_000, world.rank + 1.0), np.zeros(2_000_000)  # takes many chunks
wanted = world.size * (world.size + 1) / 2


def while_computing():
    """Rank 0 calls no MPI until rank 1 has the result, which needs rank 0's part."""
    request = comm.Iallreduce(own, total)
    if world.rank == 0:
        while not (FOLDER / "done").exists():
            time.sleep(0.001)
    request.Wait()
    if world.rank == 1:
        (FOLDER / "done").write_text("")


def while_receiving():
    request = comm.Iallreduce(own, total)
    if world.rank == 0:
        world.Recv(np.zeros(1), 1)
    request.Wait()
    if world.rank == 1:
        world.Send(np.zeros(1), 0)


def in_other_collectives():
    """Rank 0 is in a collective of another communicator, to which rank 1 comes later."""
    request = comm.Iallreduce(own, total)
    if world.rank == 0:
        other.Barrier()
    request.Wait()
    if world.rank != 0:
        other.Barrier()


def in_a_window():
    window = MPI.Win.Allocate(4096, 1, comm=world)
    request = comm.Iallreduce(own, total)
    if world.rank == 0:
        window.Fence()
    request.Wait()
    if world.rank != 0:
        window.Fence()
    window.Free()


def freed():
    short = world.Dup()
    for call in range(3):
        short.Barrier()
    requests = [short.Iallreduce(own, total), short.Ibarrier()]
    short.Free()
    del short
    again = world.Dup()  # often the same handle
    for call in range(4):
        again.Barrier()
    MPI.Request.Waitall(requests)
    again.Free()


def by_threads():
    comms = [world.Dup() for _ in range(3)]
    wrong = []

    def work(of_thread):
        try:
            for turn in range(40):
                got = [np.zeros(100 + turn * 50) for _ in range(3)]
                given = [np.full(len(part), turn + i + 1.0) for i, part in enumerate(got)]
                requests = [of_thread.Iallreduce(one, part) for one, part in zip(given, got)]
                MPI.Request.Waitall(requests)
                for i, part in enumerate(got):
                    assert (part == (turn + i + 1) * world.size).all()
        except Exception as error:
            wrong.append(error)
    threads = [threading.Thread(target=work, args=(of_thread,)) for of_thread in comms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong
    total[:] = wanted


for case in (while_computing, while_receiving, in_other_collectives, in_a_window, freed, by_threads):
    total[:] = 0
    case()
    assert (total == wanted).all(), (case.__name__, total[:3])
    world.Barrier()
print("nonblocking progress: ok", flush=True)
