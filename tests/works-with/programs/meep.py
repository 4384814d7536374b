from launchers import DebianOpenMpi
from mpi_scripts import MpiScript


class Program(MpiScript):
    title, launcher, debian = "Meep", DebianOpenMpi, ("python3-meep-openmpi=1.25.0-2", "python3-matplotlib")
    script = "cavity.py"
    case = "a pulse in a bent waveguide; the field at a point and three fluxes"
    tolerance = 1e-9
