from launchers import Mpich
from mpi_scripts import MpiScript


class Program(MpiScript):
    title, launcher, pypi = "emcee with schwimmbad", Mpich, ("emcee==3.1.6", "schwimmbad==0.4.2")
    script = "emcee_pool.py"
    case = "12 walkers, 25 steps, their chances computed by an MPI pool; the chain"
    note = "Two jobs failed, for reasons not known: a plain one of 4 ranks with status 9, and one of 3 ranks over the pool, in which a worker ended without MPI_Finalize."
