from launchers import Mpich
from mpi_scripts import MpiScript


class Program(MpiScript):
    title, launcher, pypi = "dask-mpi", Mpich, ("dask-mpi==2026.3.0", "dask==2026.8.0", "distributed==2026.8.0")
    script = "dask_cluster.py"
    ranks = (3, 4)
    tolerance = 1e-12
    case = "scheduler, client and workers on the ranks; an array's sum and a map"
    note = "Needs three ranks. MPI only starts the cluster: Dask's data go by its own TCP, outside the pool."
