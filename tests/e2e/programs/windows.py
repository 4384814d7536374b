"""One-sided operations on windows of all kinds: fences, locks, an atomic counter. Contents checked."""
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size
right, left = (rank + 1) % ranks, (rank - 1) % ranks
ROUNDS = 50


def check(kind, window, mine):
    for count in (1, 1000, 40000):
        sent, got = np.full(count, 1000 * rank + count), np.zeros(count, "i8")
        window.Fence()
        window.Put(sent, right)
        window.Fence()
        assert (mine[:count] == 1000 * left + count).all(), f"{kind}: {count} put, rank {rank}"
        window.Fence()
        window.Lock(right, MPI.LOCK_SHARED)
        window.Get(got, right)
        window.Unlock(right)
        assert (got == sent).all(), f"{kind}: {count} got back, rank {rank}"
        window.Fence()
    mine[0] = 0
    window.Fence()
    one, before = np.ones(1, "i8"), np.zeros(1, "i8")
    seen = []
    for _ in range(ROUNDS):
        window.Lock(0, MPI.LOCK_SHARED)
        window.Fetch_and_op(one, before, 0, 0, MPI.SUM)
        window.Unlock(0)
        seen.append(int(before[0]))
    everybody = comm.allgather(seen)
    window.Fence()
    counted = sorted(value for values in everybody for value in values)
    assert counted == list(range(ranks * ROUNDS)), f"{kind}: the counter was torn"


allocated = MPI.Win.Allocate(40000 * 8, 8, comm=comm)
check("allocated", allocated, np.frombuffer(allocated.tomemory(), "i8"))
allocated.Free()
memory = np.zeros(40000, "i8")
created = MPI.Win.Create(memory, 8, comm=comm)
check("created", created, memory)
created.Free()
dynamic = MPI.Win.Create_dynamic(comm=comm)
assert len(dynamic.tomemory()) == 0, "a dynamic window has a size"
dynamic.Attach(memory)
places = comm.allgather(MPI.Get_address(memory))
dynamic.Fence()
dynamic.Put(np.full(1000, 7 * rank + 1), right, places[right])
dynamic.Fence()
assert (memory[:1000] == 7 * left + 1).all(), f"dynamic: 1000 put, rank {rank}"
dynamic.Detach(memory)
dynamic.Free()
if rank == 0:
    print("windows: ok", flush=True)
