"""Ranks exchange messages of all forms for some seconds, rank 0 saying once that all are there. Rank 0 says in many copies
whether they go on: a test overwrites words, and a rank that went on by itself would wait for ever."""
import sys
import time

import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
sent, received = numpy.zeros(40_000, "B"), numpy.empty(40_000, "B")
one, all_of_them = numpy.ones(1), numpy.empty(1)
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
if comm.rank == 0:
    print("all there", flush=True)
end = time.monotonic() + float(sys.argv[1])
rounds, goes_on = 0, numpy.ones(512)
while numpy.median(goes_on) == 1:
    for size in (8, 200, 3_000, 40_000):
        comm.Sendrecv(sent[:size], right, 0, received[:size], left, 0)
        comm.Allreduce(one, all_of_them)
    rounds += 1
    if rounds % 20 == 0:
        goes_on[:] = time.monotonic() < end
        comm.Bcast(goes_on)
