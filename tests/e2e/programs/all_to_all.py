"""Every rank sends to every rank, sizes from none to 1 MB; contents are checked."""
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
for size in (0, 1, 56, 57, 448, 4096, 16384, 65536, 1 << 20):
    mine = [np.full(size, (comm.rank * 16 + to) % 251, dtype=np.uint8) for to in range(comm.size)]
    got = [np.empty(size, dtype=np.uint8) for _ in range(comm.size)]
    requests = [comm.Irecv(got[source], source, tag=size % 1000) for source in range(comm.size)]
    requests += [comm.Isend(mine[to], to, tag=size % 1000) for to in range(comm.size)]
    MPI.Request.Waitall(requests)
    for source in range(comm.size):
        expected = (source * 16 + comm.rank) % 251
        assert (got[source] == expected).all(), f"rank {comm.rank}: {size} bytes from {source}"
comm.Barrier()
if comm.rank == 0:
    print("all to all: ok", flush=True)
