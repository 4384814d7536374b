from launchers import DebianOpenMpi
from mpi_scripts import MpiScript


class Program(MpiScript):
    title, launcher, debian = "mpi4py-fft", DebianOpenMpi, ("python3-mpi4py-fft=2.0.4-1+b4",)
    script = "fft.py"
    case = "three-dimensional transforms in slabs and pencils, forth and back; norms and errors"
    note = "Its transposes are MPI_Alltoallw, which stays with the MPI: the data go as messages."
    tolerance = 1e-12
    quick = True
