"""Ranks fork children in all the usual ways. A rank's memory in the pool must stay its own."""
import multiprocessing
import os
import subprocess
import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, right, left = comm.rank, (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
BYTES = 1 << 20

block = MPI.Alloc_mem(BYTES)
memory = np.frombuffer(block, "u1")
memory[:] = 7
window = MPI.Win.Allocate(BYTES, 1, comm=comm)
own = np.frombuffer(window.tomemory(), "u1")


def fork_and(end):
    """Its exit status."""
    child = os.fork()
    if child == 0:
        assert memory[0] == 7  # what there is to read can be read
        end()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def check(what):
    """Checks that no other process owns the block, and that windows and messages still work."""
    other = MPI.Alloc_mem(BYTES)
    np.frombuffer(other, "u1")[:] = 9
    assert (memory == 7).all(), f"after {what}: the memory was given away"
    MPI.Free_mem(other)
    value, got = np.full(100, what_number(what), "u1"), np.empty(100, "u1")
    window.Fence()
    window.Put(value, right)
    window.Fence()
    assert (own[:100] == what_number(what)).all(), f"after {what}: the put"
    comm.Sendrecv(value, right, 0, got, left, 0)
    assert (got == value).all(), f"after {what}: the message"


def what_number(what):
    return sum(what.encode()) % 200


def exit_by_interpreter():
    """With its exit handlers, MPI_Finalize among them."""
    sys.exit(3)


def in_a_worker(number):
    return number + int(memory[0])


assert fork_and(lambda: os._exit(3)) == 3
check("_exit")
assert fork_and(exit_by_interpreter) == 3
check("exit")
assert fork_and(lambda: os.execv("/bin/sh", ["sh", "-c", "exit 3"])) == 3
check("exec")
assert fork_and(lambda: MPI.Free_mem(block) or exit_by_interpreter()) == 3
check("MPI_Free_mem")
assert subprocess.run(["sh", "-c", "exit 3"], preexec_fn=lambda: None).returncode == 3
check("subprocess")
with multiprocessing.get_context("fork").Pool(2) as workers:
    assert workers.map(in_a_worker, range(4)) == [7, 8, 9, 10]
check("multiprocessing")

window.Free()
MPI.Free_mem(block)
comm.Barrier()
if rank == 0:
    print("forks: ok", flush=True)
