"""mpi4py-fft: a complex and a real three-dimensional transform, forth and back, with slabs and pencils."""

import json

import numpy as np
from mpi4py import MPI
from mpi4py_fft import PFFT, newDistArray

comm = MPI.COMM_WORLD
result = {}
for name, dtype, options in (("slab", "D", {"slab": True}), ("pencil", "d", {})):
    transform = PFFT(comm, (18, 20, 24), axes=(0, 1, 2), dtype=dtype, **options)
    array = newDistArray(transform, False)
    first = [int(each.start) for each in array.local_slice()]
    grid = np.meshgrid(*[np.arange(start, start + size) for start, size in zip(first, array.shape)], indexing="ij")
    array[:] = np.sin(0.3 * grid[0]) + np.cos(0.5 * grid[1] * grid[2])
    changed = transform.forward(array, newDistArray(transform, True))
    again = transform.backward(changed.copy(), newDistArray(transform, False))
    error = comm.allreduce(float(abs(again - array).max()), op=MPI.MAX)
    result[name] = {"norm": comm.allreduce(float((abs(changed) ** 2).sum())), "right": error < 1e-12}
if comm.Get_rank() == 0:
    print("RESULT", json.dumps(result))
