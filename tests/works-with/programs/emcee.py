from launchers import Mpich
from mpi_scripts import MpiScript


class Program(MpiScript):
    title, launcher, pypi = "emcee with schwimmbad", Mpich, ("emcee==3.1.6", "schwimmbad==0.4.2")
    script = "emcee_pool.py"
    case = "12 walkers, 25 steps, their chances computed by an MPI pool; the chain"
    note = "A worker ended without MPI_Finalize now and then, without Penstock (4 ranks) and with it (3 ranks); the job then fails."
