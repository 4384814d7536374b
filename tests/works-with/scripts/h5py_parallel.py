"""h5py with the driver mpio: slabs written by each rank, collectively and not, and read by another."""

import json
import sys

import h5py
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.Get_rank(), comm.Get_size()
rows, columns = 7 * ranks, 513
mine = slice(7 * rank, 7 * rank + 7)
values = np.arange(7 * columns, dtype="f8").reshape(7, columns) + 1000 * rank
with h5py.File("case.h5", "w", driver="mpio", comm=comm) as file:
    field = file.create_dataset("field", (rows, columns), dtype="f8", chunks=(5, 100))
    with field.collective:
        field[mine] = values
    other = file.create_dataset("independent", (ranks, 3), dtype="i4")
    other[rank] = [rank, rank * rank, 7]
    file.attrs["ranks"] = ranks
comm.Barrier()
with h5py.File("case.h5", "r", driver="mpio", comm=comm) as file:
    neighbour = (rank + 1) % ranks
    read = file["field"][7 * neighbour:7 * neighbour + 7]
    right = bool((read == np.arange(7 * columns).reshape(7, columns) + 1000 * neighbour).all())
    all_right = comm.allreduce(right, op=MPI.LAND)
    total = comm.allreduce(float(read.sum()))
    small = file["independent"][...].tolist()
if rank == 0:
    print("RESULT", json.dumps({"right": all_right, "sum": total, "independent": small, "parallel": h5py.get_config().mpi}))
    sys.stdout.flush()
