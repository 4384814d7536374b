"""A shared window of ranks on several hosts: memory of all in one piece, reached by loads and stores.

usage: shared_window.py. Each rank stores into the next one's segment. In modes in which loads may be
stale two hosts must not store into one line: each rank has whole ones.
"""
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
LINE = 64
ROUNDS = 10


def communicators():
    """By each way to ask for those who share the pool, with what it is called."""
    info = MPI.Info.Create()
    info.Set("penstock_pool", "true")
    yield "info key", world.Split_type(MPI.COMM_TYPE_SHARED, 0, info)
    info.Free()
    guided = getattr(MPI, "COMM_TYPE_HW_GUIDED", MPI.UNDEFINED)
    if guided == MPI.UNDEFINED or MPI.Get_version() < (4, 0):
        return
    info = MPI.Info.Create()
    info.Set("mpi_hw_resource_type", "penstock_pool")
    yield "resource type", world.Split_type(guided, 0, info)
    info.Free()


def size_of(rank):
    """Some have nothing: the first, and every fourth from then on."""
    return 0 if rank % 4 == 0 else LINE * (rank + 1)


def check_places(window, comm, apart):
    """What MPI_Win_shared_query says: sizes, units, and one segment after the other."""
    end = None
    for rank in range(comm.size):
        memory, unit = window.Shared_query(rank)
        assert (memory.nbytes, unit) == (size_of(rank), rank + 1), f"of rank {rank}: {memory.nbytes}, {unit}"
        if memory.nbytes == 0:
            continue
        if apart:
            assert memory.address % 4096 == 0, f"rank {rank}'s segment at {memory.address:#x}"
        elif end is not None:
            assert memory.address == end, f"rank {rank}'s segment is {memory.address - end} bytes apart"
        end = memory.address + memory.nbytes
    first, unit = window.Shared_query(MPI.PROC_NULL)
    owner = next(rank for rank in range(comm.size) if size_of(rank) != 0)
    assert first.address == window.Shared_query(owner)[0].address, "not the first that has memory"
    assert (first.nbytes, unit) == (size_of(owner), owner + 1)


def segments(window, comm):
    return [np.frombuffer(window.Shared_query(rank)[0], "u1") for rank in range(comm.size)]


def value(rank, number):
    return (37 * rank + number) % 251


def check_all(found, comm, number, what):
    for rank in range(comm.size):
        wanted = value((rank - 1) % comm.size, number)
        assert (found[rank] == wanted).all(), f"{what}, round {number}: rank {comm.rank} finds of {rank} {found[rank]}"


def by_fences(window, comm, memory):
    window.Fence()
    for number in range(ROUNDS):
        memory[(comm.rank + 1) % comm.size][:] = value(comm.rank, number)
        window.Fence()
        check_all(memory, comm, number, "fence")
        window.Fence()  # they have been looked at


def by_sync(window, comm, memory):
    window.Lock_all(MPI.MODE_NOCHECK)
    for number in range(ROUNDS):
        memory[(comm.rank + 1) % comm.size][:] = value(comm.rank, number + 100)
        window.Sync()
        comm.Barrier()
        window.Sync()
        check_all(memory, comm, number + 100, "sync")
        comm.Barrier()
    window.Unlock_all()


def check(comm, apart):
    info = MPI.Info.Create()
    if apart:
        info.Set("alloc_shared_noncontig", "true")
    window = MPI.Win.Allocate_shared(size_of(comm.rank), comm.rank + 1, info, comm)
    info.Free()
    assert window.flavor == MPI.WIN_FLAVOR_SHARED
    check_places(window, comm, apart)
    memory = segments(window, comm)
    by_fences(window, comm, memory)
    by_sync(window, comm, memory)
    window.Free()


ways = 0
for what, comm in communicators():
    assert comm.size == world.size, f"by {what} {comm.size} of {world.size} ranks share the pool"
    for apart in (False, True):
        check(comm, apart)
    comm.Free()
    ways += 1
if world.rank == 0:
    print(f"shared window: ok: {world.size} ranks, {ways} ways to split", flush=True)
