from launchers import SOURCE, OpenMpi
from mpi_scripts import MpiScript


class Program(MpiScript):
    title, launcher, version = "mpi4py.futures", OpenMpi, "4.1.2"
    case = "`python -m mpi4py.futures`: maps and starmaps over the other ranks; all answers"
    quick = True

    def command(self, run):
        return [run.python, "-m", "mpi4py.futures", SOURCE / "tests/works-with/scripts/futures.py"]
