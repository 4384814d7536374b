"""How ranks are started over Penstock and over the yardstick."""

import os
import shutil
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def first_that_exists(*paths):
    return next((path for path in paths if path and os.access(path, os.X_OK)), None)


def add_options(parser):
    venv = os.path.join(ROOT, ".venv", "bin")
    parser.add_argument("--penstock", default=os.path.join(ROOT, "build", "bin", "penstock"),
                        help="the penstock command (default: %(default)s)")
    parser.add_argument("--python", default=first_that_exists(os.path.join(venv, "python"))
                        or sys.executable, help="with mpi4py (default: %(default)s)")
    parser.add_argument("--mpiexec", default=None, help="MPICH's (default: beside --python, PATH)")
    parser.add_argument("--nodes", type=int, default=None,
                        help="emulated hosts (default: one a rank, so that all goes by the pool)")
    parser.add_argument("--size", default="512M", help="of the temporary pool (%(default)s)")


def complete(options, parser):
    """Fills in what was not said; ends with a message where something is missing."""
    beside = os.path.join(os.path.dirname(options.python), "mpiexec")
    options.mpiexec = options.mpiexec or first_that_exists(beside) or shutil.which("mpiexec")
    if not options.mpiexec:
        parser.error("no mpiexec found: make build, or give --mpiexec")
    if not os.access(options.penstock, os.X_OK):
        parser.error(f"{options.penstock} is absent: make build, or give --penstock")


def penstock(options, ranks, mode):
    nodes = options.nodes or ranks
    return ({}, [options.penstock, "run", "-n", str(ranks), "--nodes", str(min(nodes, ranks)),
                 "--mode", mode, "--size", options.size, "--mpiexec", options.mpiexec, "--"])


def own_shared_memory(options, ranks):
    """MPICH's own shared memory: all ranks on one host."""
    environment = {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"}
    return environment, [options.mpiexec, "-n", str(ranks)]
