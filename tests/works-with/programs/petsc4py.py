from launchers import DebianOpenMpi
from mpi_scripts import MpiScript


class Program(MpiScript):
    title, launcher, debian = "PETSc (petsc4py)", DebianOpenMpi, ("python3-petsc4py=3.18.5-1",)
    script = "poisson_petsc.py"
    case = "Poisson's equation by CG with multigrid and by GMRES with Schwarz; iterations and norms"
    environment = {"PYTHONPATH": "/usr/lib/petscdir/petsc3.18/x86_64-linux-gnu-real/lib/python3/dist-packages"}
    note = "petsc4py on PyPI is source that compiles PETSc; Debian's package was used."
    tolerance = 1e-8
