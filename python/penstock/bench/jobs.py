"""Runs programs to their end: MPI jobs over each transport, and our own measuring programs.

The baselines use MPICH: TCP (libfabric's tcp, also between ranks of a host), MPICH's own shared memory, and libfabric's
shm. Penstock runs in each mode on two emulated hosts.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Collection, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from penstock.bench.experiment import Failed, Figures, Key, Run
from penstock.bench.places import usable_cores

TCP, OWN_SHM, LIBFABRIC_SHM = "TCP", "MPICH's own shared memory", "libfabric shm"
BASELINES = (TCP, OWN_SHM, LIBFABRIC_SHM)
STEERING = ("FI_", "MPIR_", "MPICH_", "PENSTOCK_", "UCX_")
SHM = Path("/dev/shm")
SEGMENTS = "mpich_shm_*"
Transport = Tuple[Dict[str, str], List[str]]  # environment, launcher


def penstock(mode: str) -> str:
    """The name of Penstock's series in this mode."""
    return f"Penstock {mode}"


def enough_cores(ranks: int) -> bool:
    """True if each rank has a core; otherwise times show the scheduler."""
    return ranks <= usable_cores()


def crowd(ranks: int) -> str:
    """"4 ranks on 2 cores"."""
    cores = usable_cores()
    return f"{ranks} ranks on {cores} core{'' if cores == 1 else 's'}"


def clean_environment() -> Dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(STEERING)}


def transports(run: Run, ranks: int, names: Sequence[str]) -> Dict[str, Transport]:
    """The transports in `names`. Each rank is bound to a core of its own if there are enough."""
    mpiexec = run.tools.mpiexec()
    bound = enough_cores(ranks)
    netmod = {"MPIR_CVAR_CH4_NETMOD": "ofi"}
    mpich = [mpiexec, *(["-bind-to", "core"] if bound else []), "-n", str(ranks)]
    own = [str(run.tools.command), "run", "-n", str(ranks), "--nodes", "2", *(["--bind"] if bound else []), "--mpiexec",
           mpiexec, "--mode"]
    known: Dict[str, Transport] = {
        TCP: ({**netmod, "FI_PROVIDER": "tcp", "MPIR_CVAR_NOLOCAL": "1"}, mpich),
        OWN_SHM: ({**netmod, "FI_PROVIDER": "tcp"}, mpich),
        LIBFABRIC_SHM: ({**netmod, "FI_PROVIDER": "shm", "MPIR_CVAR_NOLOCAL": "1"}, mpich),
        **{penstock(mode): ({}, [*own, mode, "--"]) for mode in ("software", "hardware", "uncached")},
    }
    return {name: known[name] for name in names}


def counting(run: Run, ranks: int, series: str) -> List[str]:
    """The option that makes an MPI program count messages through the pool, if times would show the scheduler."""
    if enough_cores(ranks) or not series.startswith("Penstock"):
        return []
    return ["--peers", shlex.join([str(run.tools.command), "ps", "--peers", "--json"])]


def own_modes(run: Run, usual: Sequence[str] = ("software", "hardware")) -> List[str]:
    """The modes of Penstock whose series are wanted."""
    return [penstock(mode) for mode in run.settings.modes or usual]


def output(command: Sequence[str], timeout: float, environment: Mapping[str, str]) -> str:
    """Runs a command and returns its standard output. Errors: Failed; also after a timeout, which ends the program."""
    before = set(SHM.glob(SEGMENTS))
    job = subprocess.Popen(list(command), env=dict(environment), text=True, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = job.communicate(timeout=timeout)
    except BaseException as error:
        end(job)
        remove_segments(before)
        if isinstance(error, subprocess.TimeoutExpired):
            raise Failed(not_done(command, timeout)) from None
        raise
    if job.returncode != 0:
        raise Failed(f"{' '.join(command)} failed (status {job.returncode}): {(err or out).strip()[-1500:]}")
    return out


def not_done(command: Sequence[str], timeout: float) -> str:
    return f"{' '.join(command)}: not done after {timeout:.0f} s: give a longer --timeout, or --budget for the whole run"


def end(job: "subprocess.Popen[str]") -> None:
    """Ends a job. A launcher asked to end also ends its ranks. A program that is killed while it makes its temporary pool
    leaves the pool behind."""
    try:
        _ended(job)
    finally:
        name = f"penstock.penstock-bench-{job.pid}"
        for pool in (SHM / name, *SHM.glob(f"{name}-*")):
            pool.unlink(missing_ok=True)


def remove_segments(before: Collection[Path]) -> None:
    """Removes shared memory that ended MPICH ranks have left: segments that are not in `before` and that no process maps."""
    for _ in range(20):
        held = _mapped()
        left = [path for path in SHM.glob(SEGMENTS) if path not in before]
        for path in left:
            if str(path) not in held:
                path.unlink(missing_ok=True)
        if not held.intersection(map(str, left)):
            return
        time.sleep(0.05)  # the launcher may exit before its last rank


def _mapped() -> Set[str]:
    found: Set[str] = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            found.update(re.findall(rf"{SHM}/mpich_shm_\S+", maps.read_text(errors="replace")))
        except OSError:  # it has ended, or belongs to another user
            continue
    return found


def _ended(job: "subprocess.Popen[str]") -> None:
    job.terminate()
    try:
        job.communicate(timeout=20)
    except BaseException as error:  # also a second Ctrl-C
        job.kill()
        job.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise


def lines_of(run: Run, transport: Transport, command: Sequence[str], measurements: int = 1) -> List[List[str]]:
    """Runs an MPI program over this transport. Returns the words of its output lines, without remarks."""
    environment, launcher = transport
    out = output([*launcher, *command], run.timeout(measurements), {**clean_environment(), **environment})
    return [line.split() for line in out.splitlines() if line.strip() and not line.startswith("#")]


def figures_of(run: Run, command: Sequence[str], **fields: Any) -> Figures:
    """Runs a measuring program and returns the figures of its --json output; `fields` replace fields of all keys."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        file = Path(folder) / "figures.json"
        output([*command, "--json", str(file)], run.timeout(), clean_environment())
        return _figures(json.loads(file.read_text()), fields)


def limits_of(run: Run, modes: Sequence[str], pool: Optional[str] = None) -> Figures:
    """Runs a round of `penstock bench limits`."""
    command = [str(run.tools.command), "bench", "limits", "--rounds", "1", "--mode", ",".join(modes), "--json"]
    return _figures(json.loads(output([*command, *(["--pool", pool] if pool else [])], run.timeout(), clean_environment())), {})


def _figures(reports: Sequence[Mapping[str, Any]], fields: Mapping[str, Any]) -> Figures:
    return {_key(figure, fields): figure["values"] for report in reports for figure in report["figures"]}


def _key(figure: Mapping[str, Any], fields: Mapping[str, Any]) -> Key:
    size: Optional[float] = figure.get("bytes")
    return Key(**{"op": figure["op"], "metric": figure["metric"], "bytes": None if size is None else int(size),
                  "series": figure["series"], "group": figure.get("group"), "procs": int(figure.get("procs", 1)),
                  "serialized": figure.get("serialized"), **fields})


class TemporaryPool:
    """A pool in software mode, in memory or in a file in this folder; removed at the end. Errors: Failed."""

    def __init__(self, run: Run, folder: Optional[str] = None, size: int = 256 << 20) -> None:
        name = f"penstock-bench-{os.getpid()}-software"
        self.command, self.size = str(run.tools.command), size
        self.spec = f"{folder}/{name}" if folder else f"shm:{name}"

    def __enter__(self) -> "TemporaryPool":
        output([self.command, "pool", "create", self.spec, "--size", str(self.size), "--mode", "software"], 60, clean_environment())
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run([self.command, "pool", "rm", "--force", self.spec], capture_output=True, check=False,
                       env=clean_environment())


def sizes_argument(sizes: Sequence[int]) -> str:
    return ",".join(map(str, sizes))
