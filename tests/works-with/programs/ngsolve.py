from launchers import Mpich
from mpi_scripts import MpiScript


class Program(MpiScript):
    title, launcher, pypi = "NGSolve", Mpich, ("ngsolve==6.2.2608",)
    script = "poisson_ngsolve.py"
    case = "Poisson's equation on a mesh spread over the ranks, by CG; the solution's integral"
    tolerance = 1e-9
