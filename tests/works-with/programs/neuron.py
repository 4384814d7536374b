from launchers import Mpich, SOURCE
from mpi_scripts import MpiScript


class Program(MpiScript):
    title, launcher, pypi = "NEURON", Mpich, ("neuron==9.0.2",)
    script = "cable.py"
    case = "a ring of 12 cells whose spikes cross ranks, 60 ms; all times of spikes"
    environment = {"MPI_LIB_NRN_PATH": SOURCE / ".venv/lib/libmpi.so.12", "NEURON_INIT_MPI": 1}
    note = "NEURON's wheel loads the MPI that `MPI_LIB_NRN_PATH` names, once `NEURON_INIT_MPI=1` or `-mpi` asks for it."
