"""The cost of durable changes: transactions and checkpoints in a pool, compared with plain stores and files."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Dict, Optional, Sequence

from penstock.bench import jobs
from penstock.bench.experiment import Absent, Experiment, Figures, Key, Measure, Run
from penstock.bench.model import Plot

SIZES, QUICK_SIZES = [64, 4096, 65536, 1048576, 8 << 20], [64, 65536]
LARGEST = 32 << 20
METRICS = {"publish": "stored and published", "transaction": "transaction", "checkpoint": "checkpoint"}


def measure(run: Run, program: str, spec: str, sizes: Sequence[int], series: str, files: Sequence[str],
            iterations: int) -> Figures:
    """Runs lab/bench/persist.c and returns its figures."""
    command = [program, spec, "--sizes", jobs.sizes_argument(sizes), "--iterations", str(iterations)]
    for each in files:
        command += ["--file", each]
    figures: Dict[Key, float] = {}
    for line in jobs.output(command, run.timeout(), jobs.clean_environment()).splitlines():
        op, where, size, microseconds = line.split()
        name = series if where == "pool" else f"a file on {where}"
        figures[Key(METRICS[op], "time_us", int(size), series=name)] = float(microseconds)
    return figures


def disk_folder() -> Optional[str]:
    """A folder on a file system that is not in memory."""
    memory = {line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if line.split()[2] in ("tmpfs", "ramfs")}
    for folder in (Path.cwd(), Path.home(), Path("/var/tmp"), Path(tempfile.gettempdir())):
        mounts = [str(each) for each in (folder.resolve(), *folder.resolve().parents) if each.is_mount()]
        if mounts and mounts[0] not in memory:
            try:
                with tempfile.TemporaryFile(dir=folder):
                    return str(folder)
            except OSError:
                continue
    return None


def run(run: Run) -> None:
    if not (run.tools.include_folder() / "penstock/persist.h").exists():
        raise Absent("this build has no persistent objects (penstock/persist.h): make build of a version that has them")
    program = str(run.tools.compiled("bench/persist.c", with_penstock=True, mpi=False))
    sizes = [size for size in run.settings.sizes_or(SIZES, QUICK_SIZES) if size <= LARGEST]
    if not sizes:
        raise Absent(f"sizes above {LARGEST} bytes are not measured")
    disk = disk_folder()
    if disk is None:
        run.lacks("files and pools on a disk: every folder that can be written is of memory")
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir="/dev/shm") as memory_files, \
            tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=disk) as disk_files, \
            jobs.TemporaryPool(run) as in_memory, jobs.TemporaryPool(run, disk_files) as in_file:
        files = [f"tmpfs={memory_files}/saved", *([f"disk={disk_files}/saved"] if disk else [])]
        few = 10 if run.settings.quick else 50
        measurements: Dict[str, Measure] = {
            "Penstock, pool in memory": partial(measure, run, program, in_memory.spec, sizes, "Penstock, pool in memory", files, few)}
        if disk:
            measurements["Penstock, pool in a file"] = partial(measure, run, program, in_file.spec, sizes, "Penstock, pool in a file",
                                                               [], max(3, few // 10))
        run.rounds(measurements, 5, quick_rounds=1, baselines=["a file on tmpfs", "a file on disk"])
    run.plot(Plot("persist-checkpoint", "Time of a checkpoint", {"op": "checkpoint"}, unit="microseconds"),
             Plot("persist-pool", "What a transaction adds to a store", {"series": "Penstock, pool in memory"}, split="op",
                  unit="microseconds"))


EXPERIMENT = Experiment(
    "persist", "What it costs that changes last", "Bytes stored and published, changed by a transaction, and saved as a "
    "checkpoint, in a pool in memory and in a file; beside them files that are written, synced and renamed.",
    source="STREAMer, which leaves the cost of persistence open", emulated="The pool lies in memory, whose fences wait for no device, or in a file, which "
    "is synced by the kernel: a devdax or a DAX file system lies between.", run=run, order=85, needs="a C compiler")
