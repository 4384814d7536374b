"""Rank 2 dies. Rank 0's receives from any source continue in communicators without rank 2; in the world they fail."""
import os
import pathlib
import re
import time

from mpi4py import MPI
from own_segments import own_segments

world = MPI.COMM_WORLD
dies = world.rank == 2
some = world.Split(int(dies), world.rank)
for comm in world, some:
    comm.allreduce(1)
if dies:
    # MPICH's ranks unlink these in MPI_Finalize, which no rank calls here.
    for segment in own_segments():
        family = re.sub(r"\d+$", "", pathlib.Path(segment).name)
        for left in pathlib.Path("/dev/shm").glob(family + "*"):
            left.unlink(missing_ok=True)
    os._exit(0)
buffer = bytearray(8)
if world.rank == 1:
    time.sleep(2)  # by then rank 0, which waits, knows of the death
    for _ in range(3):
        some.Send(b"fromone.", 0)
    time.sleep(10)
    os._exit(0)  # MPICH's launcher does not always end it with the others
for _ in range(3):
    some.Recv(buffer, MPI.ANY_SOURCE, MPI.ANY_TAG)
    assert bytes(buffer) == b"fromone."
print("goes on without the dead", flush=True)
time.sleep(0.5)  # MPICH ends the job by the next error, and its launcher may lose what was said just before
world.Recv(buffer, MPI.ANY_SOURCE, MPI.ANY_TAG)
print("hears of the dead", flush=True)
