"""The last rank receives messages late and in reverse order: nonblocking ones from all ranks, then blocking ones.
PENSTOCK_UNEXPECTED_BYTES limits the bytes that a rank keeps. Argument: "both ways", or "one way" for blocking only."""
import sys

import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, last = comm.rank, comm.size - 1
COUNT = 400


def content(sender, number, words):
    return numpy.arange(words, dtype="i4") + sender * 100_000 + number


def check(buffer, sender, number, words):
    assert (buffer[:words] == content(sender, number, words)).all(), (sender, number)


def nonblocking(words):
    """All ranks send to all before any receives; each receives the last message first."""
    out = [content(rank, number, words) for number in range(COUNT)]
    others = [peer for peer in range(comm.size) if peer != rank]
    sends = [comm.Isend(one, peer, number) for peer in others for number, one in enumerate(out)]
    done = numpy.zeros(1, dtype="i4")
    comm.Sendrecv(done, (rank + 1) % comm.size, COUNT, done, (rank - 1) % comm.size, COUNT)
    for peer in others:
        into = [numpy.empty(words, dtype="i4") for _ in range(COUNT)]
        MPI.Request.Waitall([comm.Irecv(into[number], peer, number) for number in reversed(range(COUNT))])
        for number, buffer in enumerate(into):
            check(buffer, peer, number, words)
    MPI.Request.Waitall(sends)


def blocking(words):
    """Rank 0 sends continuously; the last rank waits for a message that follows all of rank 1's, or of rank 0's."""
    if rank == 0:
        for number in range(COUNT):
            comm.Send(content(0, number, words), last, number)
    elif rank == last:
        status = MPI.Status()
        for _ in range(COUNT):
            comm.Probe(0, MPI.ANY_TAG, status)
            buffer = numpy.empty(words, dtype="i4")
            comm.Recv(buffer, 0, status.Get_tag())
            check(buffer, 0, status.Get_tag(), words)


for words in (5, 900, 12_000):
    if sys.argv[1] == "both ways":
        nonblocking(words)
    blocking(words)
comm.Barrier()
if rank == 0:
    print("flood: ok")
