"""STREAM on each kind of memory that the machine has, by STREAMer's classes: docs/stream.md."""

from __future__ import annotations

import json
import re
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence

from penstock.bench import jobs, places
from penstock.bench.experiment import Experiment, Failed, Figures, Key, Run
from penstock.bench.model import Plot

KERNELS = ("copy", "scale", "add", "triad")
QUICK = ["--elements", "262144", "--any-size", "--ntimes", "3"]
FULL = ["--smallest"]
DIRECT = "App-Direct in memory"  # our own class: the library's work alone, without a device
WAYS = ("pmem", "pmem+persist", "pmem+tx", "pmem+tx-nosnap")
LOCAL = "local"  # the class of a socket's own memory
ROUND = 5  # a round has many series: it may take this many times the time of one measurement


def read(file: Path) -> Dict[str, List[Mapping[str, Any]]]:
    """The tables of `penstock bench stream --json`, by title."""
    return {table["title"]: table["rows"] for table in json.loads(file.read_text())[0]["tables"]}


def options(run: Run) -> List[str]:
    modes = [mode for mode in run.settings.modes or () if mode != "simulated"]
    found = [*(QUICK if run.settings.quick else FULL), *(["--mode", ",".join(modes)] if modes else [])]
    return found + (["--threads", ",".join(map(str, run.settings.procs))] if run.settings.procs else [])


def measure(run: Run, group: str, environment: Mapping[str, str], arguments: Sequence[str]) -> Figures:
    """Measures one round of all series. `group`: "" uses each series' own class."""
    with tempfile.TemporaryDirectory(prefix="penstock-stream-") as folder:
        file = Path(folder) / "stream.json"
        jobs.output([str(run.tools.command), "bench", "stream", *options(run), "--json", str(file), *arguments],
                    run.timeout(ROUND), {**jobs.clean_environment(), **environment})
        tables = read(file)
    figures: Dict[Key, float] = {}
    for row in tables["figures"]:
        key = Key(row["kernel"].lower(), "bandwidth_MBps", group=group or row["class"], procs=int(row["threads"]),
                  series=row["series"] if not group else row["target"])
        figures[key] = row["MBps"]
    reasons: Dict[str, List[str]] = {}
    for each in tables["absent"]:
        reasons.setdefault(each["why"], []).append(each["what"])
    for why, what in reasons.items():
        run.lacks(f"{', '.join(what)}: {why}")
    return figures


def direct(run: Run) -> Figures:
    """Measures libpmemobj over this host's memory: its write-backs and transactions, without a device."""
    with tempfile.TemporaryDirectory(prefix="penstock-stream-", dir="/dev/shm") as folder:
        return measure(run, DIRECT, {"PMEM_IS_PMEM_FORCE": "1"}, ["--target", "memory", *(f"{way}:{folder}" for way in WAYS)])


def published(run: Run, program: str) -> Figures:
    """Runs one round of STREAM as published, one thread per core. Errors: Failed if the validation failed."""
    figures: Dict[Key, float] = {}
    cores = places.usable_cores()
    for threads in [each for each in run.settings.procs or sorted({1, cores}) if each <= cores]:
        environment = {"OMP_NUM_THREADS": str(threads), "OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}
        said = jobs.output([program], run.timeout(), {**jobs.clean_environment(), **environment})
        if "Solution Validates" not in said:
            raise Failed(f"{program} does not say that its solution validates: {said.strip()[-500:]}")
        for kernel, rate in re.findall(r"^(Copy|Scale|Add|Triad): +([\d.]+)", said, re.MULTILINE):
            figures[Key(kernel.lower(), "bandwidth_MBps", group=LOCAL, procs=threads, series="STREAM as published")] = float(rate)
    if not figures:
        raise Failed(f"{program} prints no line of Copy, Scale, Add or Triad: is it STREAM?")
    return figures


def run(run: Run) -> None:
    pool = ["--target", *(f"{way}:{run.settings.pool}" for way in ("pool", "pool+observe", "pool+tx"))]
    classes = partial(measure, run, "", {}, [])
    measurements = {"classes": classes, DIRECT: partial(direct, run)}
    if run.settings.pool:
        measurements["pool"] = partial(measure, run, f"pool {run.settings.pool}", {}, pool)
    if run.settings.stream:
        measurements["STREAM as published"] = partial(published, run, str(Path(run.settings.stream).resolve()))
    run.rounds(measurements, default_rounds=3, quick_rounds=1)
    for row in run.outcome.rows:
        row.baseline = not (row.group or "").startswith("pool")
    for group in sorted({row.group or "" for row in run.outcome.rows}):
        for kernel in KERNELS:
            run.plot(Plot(f"stream-{group.replace(' ', '-').replace(':', '-')}-{kernel}", f"{kernel.capitalize()}, {group}",
                          {"op": kernel, "group": group}, x="procs", logx=False, logy=False, unit="MB/s"))


EXPERIMENT = Experiment(
    "stream", "STREAM by class of memory", "Copy, Scale, Add and Triad as published, on NUMA nodes, by libpmemobj and in pools, "
    "with what makes a store persistent, shared or all-or-nothing: STREAMer measured plain stores alone.",
    source="STREAMer, Figures 5 to 8", emulated="A class exists where the machine has its memory; libpmemobj in /dev/shm shows "
    "the library's work, not a device's; the temporary pool is this host's memory.", run=run, order=60,
    needs="nothing; libnuma1, libpmemobj1 for their classes")
