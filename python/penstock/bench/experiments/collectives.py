"""MPI's collectives over each transport, as messages and through the pool, with the raw limit of the same run."""

from __future__ import annotations

import subprocess
from functools import partial
from typing import Dict, List, Sequence

from penstock.bench import jobs
from penstock.bench.experiment import Absent, Experiment, Figures, Key, Measure, Run
from penstock.bench.model import Plot, row

SIZES, QUICK_SIZES = [8, 1024, 16384, 65536, 1048576], [8, 65536]
OPS = ["barrier", "bcast", "reduce", "allreduce", "allgather", "alltoall", "reduce_scatter"]
SOFTWARE = jobs.penstock("software")
MESSAGES = "Penstock software, by messages"
NAMES = {"broadcast": "bcast"}


def transports(run: Run, ranks: int, names: Sequence[str]) -> Dict[str, jobs.Transport]:
    """The transports, and Penstock once more with collectives as messages."""
    kinds = jobs.transports(run, ranks, [*names, SOFTWARE])
    environment, launcher = kinds[SOFTWARE]
    wanted = {name: kinds[name] for name in names}
    return {**wanted, MESSAGES: ({**environment, "PENSTOCK_COLL": "none"}, launcher)}


def times(run: Run, transport: jobs.Transport, program: str, sizes: Sequence[int], ranks: int, raw: bool) -> Figures:
    ops = [*OPS, "raw"] if raw else OPS
    few = ["--iterations", "20"] if run.settings.quick else []
    figures: Dict[Key, float] = {}
    for op, size, value in jobs.lines_of(run, transport, [program, "--op", ",".join(ops), "--sizes",
                                                          jobs.sizes_argument(sizes), "--validate", *few]):
        if op != "raw":
            figures[Key(op, "time_us", None if op == "barrier" else int(size), procs=ranks)] = float(value)
            continue
        for each in OPS:  # the limit of all of them
            if each != "barrier" or int(size) == min(sizes):
                figures[Key(each, "time_us", None if each == "barrier" else int(size), procs=ranks, series="raw limit")] = float(value)
    return figures


def usage(run: Run, transport: jobs.Transport, program: str, sizes: Sequence[int], ranks: int, ops: Sequence[str] = tuple(OPS),
          iterations: int = 0, parts: int = 1) -> Figures:
    """Runs one job. `iterations`: 0 chooses the number by size; `parts`: number of measurements that this one counts as."""
    figures: Dict[Key, float] = {}
    iterations = iterations or (20 if run.settings.quick else 0)
    few = ["--iterations", str(iterations)] if iterations else []
    words = [program, "--usage", "--validate", "--op", ",".join(ops), "--sizes", jobs.sizes_argument(sizes), *few]
    for op, size, cpu, _, sent, received in jobs.lines_of(run, transport, words, parts):
        what = partial(Key, op, bytes=None if op == "barrier" else int(size), procs=ranks, wall=False)
        figures[what(metric="cpu_us")] = float(cpu)
        figures[what(metric="bytes_socket")] = float(sent) + float(received)
    return figures


def counts(run: Run, sizes: Sequence[int], ranks: int) -> None:
    """Adds pool bytes and serialized device accesses of the busiest rank, computed from the schedules."""
    try:
        program = run.tools.program("collective_counts")
    except Absent as error:
        run.lacks(f"device accesses: {error}")
        return
    done = subprocess.run([str(program), "--ranks", str(ranks), "--sizes", jobs.sizes_argument(sizes)], capture_output=True,
                          text=True, check=True)
    for line in done.stdout.splitlines():
        if line.startswith("#"):
            continue
        op, size, form, written, read, _, accesses = line.split()
        op = NAMES.get(op, op)
        what = {"bytes": None if op == "barrier" else int(size), "procs": ranks, "wall": False,
                "serialized": float(accesses)}
        run.add(row("Penstock software", op, "accesses", [float(accesses)], **what),
                row("Penstock software", op, "bytes_device", [float(written) + float(read)], **what))


def measurements(run: Run, ranks: int, sizes: Sequence[int]) -> Dict[str, Measure]:
    program = str(run.tools.compiled("bench/collectives.c"))
    if not jobs.enough_cores(ranks):
        kinds = transports(run, ranks, [jobs.TCP, SOFTWARE])
        return {name: partial(usage, run, kind, program, sizes, ranks) for name, kind in kinds.items()}
    names: List[str] = [jobs.TCP, jobs.OWN_SHM, jobs.LIBFABRIC_SHM, *jobs.own_modes(run)]
    return {name: partial(times, run, kind, program, sizes, ranks, name == jobs.OWN_SHM)
            for name, kind in transports(run, ranks, names).items()}


def run(run: Run) -> None:
    sizes = run.settings.sizes_or(SIZES, QUICK_SIZES)
    for ranks in run.settings.procs_or([2, 4], [2]):
        enough = jobs.enough_cores(ranks)
        usable = [size for size in sizes if size >= 4 * ranks or size == 8]
        run.rounds(measurements(run, ranks, usable), 5 if enough else 1, quick_rounds=1,
                   baselines=[*jobs.BASELINES, MESSAGES, "raw limit"])
        counts(run, usable, ranks)
        if not enough:
            run.lacks(f"{jobs.crowd(ranks)}: CPU time, bytes and device accesses only, no times")
    for op in OPS[1:]:
        run.plot(Plot(f"collectives-{op}", f"MPI_{op.capitalize()}", {"op": op, "metric": "time_us"}, unit="microseconds"))


EXPERIMENT = Experiment(
    "collectives", "MPI's collectives", "The time of a call over each transport, by messages and through the pool, beside the "
    "raw limit; with more ranks than cores CPU time, bytes and device accesses.", source="CCCL; cMPI, section 3",
    emulated="Two emulated hosts are processes of one; the pool is its memory.", run=run, order=70, needs="MPICH, two cores")
