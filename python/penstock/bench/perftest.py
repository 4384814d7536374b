"""RDMA latency and bandwidth by perftest (ib_write_lat, ib_write_bw), if the machine has an RDMA device.

Without a peer both ends are on this host and use its device. With a peer, these servers must run there:
`while ib_write_lat -p 18515; do :; done & while ib_write_bw -p 18516; do :; done`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Dict, List, Optional

from penstock.bench import jobs
from penstock.bench.experiment import Absent, Failed, Figures, Key, Measure, Run

DEVICES = Path("/sys/class/infiniband")
SIZES = (8, 1 << 20)
# program -> (op, metric, port, column of its table, factor to the metric's unit: perftest's MB are 2^20 bytes)
TESTS = {"ib_write_lat": ("latency", "latency_us", 18515, 4, 1.0), "ib_write_bw": ("bandwidth", "bandwidth_MBps", 18516, 3, 1.048576)}


def device() -> str:
    """The first RDMA device. Errors: Absent."""
    found = sorted(each.name for each in DEVICES.iterdir()) if DEVICES.is_dir() else []
    if not found:
        raise Absent("RDMA is theirs only: this machine has no RDMA device")
    return found[0]


def measurements(run: Run) -> Dict[str, Measure]:
    """The measurements by perftest. Errors: Absent, which names what is missing."""
    name = device()
    lost = [program for program in TESTS if shutil.which(program) is None]
    if lost:
        raise Absent(f"RDMA is theirs only: {name} is there, but {' and '.join(lost)} not: apt install perftest")
    host = run.settings.peer.rsplit(":", 1)[0] if run.settings.peer else None
    series = f"RDMA, {name}, to {host}" if host else f"RDMA, {name}, within this host"
    return {f"{series}, {program}": partial(measure, run, program, name, host, series) for program in TESTS}


def measure(run: Run, program: str, name: str, host: Optional[str], series: str) -> Figures:
    op, metric, port, column, scale = TESTS[program]
    figures: Dict[Key, float] = {}
    for size in SIZES:
        command = [program, "-d", name, "-s", str(size), "-n", "1000", "-F", "-p", str(port)]
        line = figure_line(_said(run, command, host), size)
        figures[Key(op, metric, size, procs=2, series=series)] = float(line[column]) * scale
    return figures


def _said(run: Run, command: List[str], host: Optional[str]) -> str:
    """Runs server and client; returns the client's output."""
    if host:
        return jobs.output([*command, host], run.timeout(), jobs.clean_environment())
    server = subprocess.Popen(command, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return jobs.output(["sh", "-c", 'sleep 1; exec "$@"', "sh", *command, "localhost"], run.timeout(), jobs.clean_environment())
    finally:
        jobs.end(server)


def figure_line(said: str, size: int) -> List[str]:
    """The words of the table's line for this size.

    >>> figure_line(" #bytes #iterations t_min\\n 8 1000 0.9 4.0 1.02 1.03\\n", 8)[4]
    '1.02'
    """
    for line in said.splitlines():
        if re.match(rf"\s*{size}\s+\d+\s+[\d.]+", line):
            return line.split()
    raise Failed(f"perftest printed no line for {size} bytes: {said.strip()[-300:]}")
