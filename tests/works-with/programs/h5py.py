from launchers import DebianOpenMpi
from mpi_scripts import MpiScript


class Program(MpiScript):
    title, launcher, debian = "h5py (HDF5 with MPI-IO)", DebianOpenMpi, ("python3-h5py-mpi=3.7.0-8",)
    script = "h5py_parallel.py"
    case = "slabs of a chunked array, collective and independent, read back by a neighbour"
    environment = {"HDF5_USE_FILE_LOCKING": "FALSE"}
    note = "h5py's wheel of PyPI has no MPI; Debian's package has."
    quick = True
