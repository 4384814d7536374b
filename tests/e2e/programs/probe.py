"""Each rank probes for a message of each other by name, blocking and not, before it receives it."""
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
for size in (0, 8, 3000, 100_000, 1 << 20):
    for shift in range(1, comm.size):
        to, source = (comm.rank + shift) % comm.size, (comm.rank - shift) % comm.size
        sent = comm.Isend(np.full(size, comm.rank, dtype=np.uint8), to, tag=shift)
        status = MPI.Status()
        if shift % 2:
            comm.Probe(source, shift, status)
        else:
            while not comm.Iprobe(source, MPI.ANY_TAG, status):
                pass
        assert (status.source, status.tag, status.Get_count()) == (source, shift, size)
        got = np.empty(size, dtype=np.uint8)
        comm.Recv(got, source, shift)
        assert (got == source).all()
        sent.Wait()
comm.Barrier()
if comm.rank == 0:
    print("probe: ok", flush=True)
