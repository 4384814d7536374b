from launchers import IntelMpi
from programs import emcee


class Program(emcee.Program):
    title, launcher = "emcee with schwimmbad, Intel MPI", IntelMpi
    note = ""
