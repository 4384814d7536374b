from launchers import Program as Base


class Program(Base):
    title, launcher, debian = "MrBayes", None, ("mrbayes-mpi=3.2.7a-6",)
    reason = "Debian's package of this name holds a program without MPI: it is linked with no MPI library, and each rank computes everything."
