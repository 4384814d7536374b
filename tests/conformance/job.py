"""Runs a command with a deadline, and ends every process that it has started, but no others."""

import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass

GRACE_S = 15


@dataclass
class Outcome:
    status: int
    output: str
    seconds: float
    ended: str = ""  # why we ended it; "" if it ended by itself


def _parents():
    """Maps the pid of each visible process to its parent's."""
    parents = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as file:
                parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue
    return parents


def descendants(pid):
    parents = _parents()
    found, front = [], {pid}
    while front:
        front = {child for child, parent in parents.items() if parent in front}
        found.extend(front)
    return found


def _signal(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def _session(pid):
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def _left(family, sessions):
    """The processes of the job that still run. A reused pid is not in one of our sessions."""
    return [pid for pid in family if _session(pid) in sessions]


def _end(process):
    """Ends the launcher first, which ends its ranks and cleans up; then kills the remaining processes."""
    family = set(descendants(process.pid))
    _signal([process.pid], signal.SIGTERM)
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        family |= set(descendants(process.pid))
        _signal([process.pid], signal.SIGKILL)
        process.wait()
    sessions = {process.pid, *family}
    end = time.monotonic() + GRACE_S  # cleanup after a dead launcher may take a moment
    while _left(family, sessions) and time.monotonic() < end:
        time.sleep(0.2)
    _signal(_left(family, sessions), signal.SIGKILL)


def end_on_signals():
    """SIGTERM and SIGHUP end this program as Ctrl-C does: with its jobs."""
    def leave(number, _frame):
        raise SystemExit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


def run(command, environment, log_path, deadline_s, stalled=None, cwd=None):
    """Runs the command. `stalled()` is called every second; if it returns a text, the job ends with that reason."""
    with tempfile.TemporaryDirectory(prefix="penstock-tmp-", ignore_cleanup_errors=True) as own:
        return _run(command, {**environment, "TMPDIR": own}, log_path, deadline_s, stalled, cwd)


def _run(command, environment, log_path, deadline_s, stalled, cwd):
    start = time.monotonic()
    ended = ""
    with open(log_path, "wb") as log:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=subprocess.STDOUT, start_new_session=True, cwd=cwd)
        try:
            while True:
                try:
                    process.wait(1)
                    break
                except subprocess.TimeoutExpired:
                    pass
                if time.monotonic() - start > deadline_s:
                    ended = f"did not end within {deadline_s} s"
                elif stalled is not None:
                    ended = stalled() or ""
                if ended:
                    _end(process)
                    break
        except BaseException:
            _end(process)
            raise
    with open(log_path, errors="replace") as log:
        output = log.read()
    return Outcome(process.returncode, output, time.monotonic() - start, ended)


def clean_environment(extra):
    """This environment without variables that select a transport, plus `extra`."""
    own = ("FI_", "MPIR_", "MPICH_", "OMPI_", "PMIX_", "PRTE_", "I_MPI_", "PENSTOCK_", "UCX_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return {**kept, **extra}
