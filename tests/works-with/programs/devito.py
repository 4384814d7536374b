from launchers import SOURCE, Mpich
from mpi_scripts import MpiScript


class Program(MpiScript):
    title, launcher, pypi = "Devito", Mpich, ("devito==4.8.23", "numpy==2.4.3")
    script = "wave.py"
    case = "a wave equation in generated C with halo exchanges, 40 steps; the field's norm"
    environment = {"DEVITO_MPI": "basic", "DEVITO_LANGUAGE": "C", "DEVITO_ARCH": "gcc", "DEVITO_LOGGING": "ERROR", "MPICC": SOURCE / ".venv/bin/mpicc"}
    tolerance = 1e-5
