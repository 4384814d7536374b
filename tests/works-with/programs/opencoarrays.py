import re
import subprocess

from launchers import SOURCE, DebianOpenMpi, Program as Base

FOLDER = "/usr/lib/x86_64-linux-gnu/open-coarrays/openmpi/lib"


class Program(Base):
    title, launcher = "Coarrays (gfortran, OpenCoarrays)", DebianOpenMpi
    debian = ("libcoarrays-openmpi-dev=2.10.1-1+b1", "gfortran", "libopenmpi-dev")
    case = "puts, events and loads between images; the program's own checks"
    note = "Windows of coarrays stay with the MPI, whose messages go through the pool."
    quick = True

    def command(self, run):
        subprocess.run(["mpif90.openmpi", "-fcoarray=lib", "-O1", SOURCE / "tests/e2e/programs/coarrays.f90", "-o", "coarrays",
                        f"{FOLDER}/libcaf_openmpi.a"], cwd=run.folder, check=True)
        return ["./coarrays"]

    def result(self, run):
        return re.findall(r"coarrays: ok: +\d+ images", run.output)
