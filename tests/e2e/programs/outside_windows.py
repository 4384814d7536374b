"""Windows that the MPI keeps, over memory that lies in the pool: of some ranks only, or attached later.

usage: outside_windows.py. The program looks at its memory by plain loads and knows nothing of caches:
what peers put there must come through its own process.
"""
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size
right, left = (rank + 1) % ranks, (rank - 1) % ranks
CELLS, ROUNDS = 5000, 8


def check(what, window, memory, place):
    """`place` gives the displacement of a cell of a rank's memory."""
    got, sent, five = np.zeros(CELLS, "i8"), np.zeros(CELLS // 2, "i8"), np.full(CELLS // 2, 5)
    window.Fence()
    for number in range(ROUNDS):
        memory[:] = -1 - number
        sent[:] = 1000 * rank + number
        window.Fence()
        window.Put(sent, right, place(right, 0))
        window.Fence()
        assert (memory[:CELLS // 2] == 1000 * left + number).all(), f"{what}: put, round {number}, rank {rank}"
        assert (memory[CELLS // 2:] == -1 - number).all(), f"{what}: beside, round {number}, rank {rank}"
        memory[CELLS // 2:] = 7 * rank + number
        window.Fence()
        window.Get(got, right, place(right, 0))
        window.Fence()
        assert (got[:CELLS // 2] == 1000 * rank + number).all(), f"{what}: get, round {number}, rank {rank}"
        assert (got[CELLS // 2:] == 7 * right + number).all(), f"{what}: get of stores, round {number}, rank {rank}"
        window.Accumulate(five, left, place(left, 0), MPI.SUM)
        window.Fence()
        assert (memory[:CELLS // 2] == 1000 * left + number + 5).all(), f"{what}: sum, round {number}, rank {rank}"
        window.Fence()


block = MPI.Alloc_mem(8 * CELLS)
in_pool = np.frombuffer(block, "i8")
memory = in_pool if rank == 0 else np.zeros(CELLS, "i8")
mixed = MPI.Win.Create(memory, 8, comm=comm)
check("mixed", mixed, memory, lambda of, cell: cell)
mixed.Free()

dynamic = MPI.Win.Create_dynamic(comm=comm)
dynamic.Attach(block)
addresses = comm.allgather(MPI.Get_address(block))
check("dynamic", dynamic, in_pool, lambda of, cell: addresses[of] + 8 * cell)
comm.Barrier()
dynamic.Detach(block)
dynamic.Free()

# Messages from there and to there, as long as an MPI sends without a copy.
for number in range(ROUNDS):
    in_pool[:] = 100 * rank + number
    arrived = np.zeros(CELLS, "i8")
    comm.Sendrecv(in_pool, right, 0, arrived, left, 0)
    assert (arrived == 100 * left + number).all(), f"sent from there, round {number}, rank {rank}"
    comm.Sendrecv(arrived, left, 1, in_pool, right, 1)
    assert (in_pool == 100 * rank + number).all(), f"arrived there, round {number}, rank {rank}"
MPI.Free_mem(block)
if rank == 0:
    print("outside windows: ok", flush=True)
