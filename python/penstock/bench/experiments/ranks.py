"""Costs that grow with the number of ranks: start, memory, waiting, fences and messages of real processes, and device
accesses of simulated ones. CPU time and counts only, since there are never enough cores."""

from __future__ import annotations

import math
import time
from typing import Dict, List, Optional, Sequence, Tuple

from penstock.bench import growth, jobs
from penstock.bench.experiment import Absent, Experiment, Failed, Run
from penstock.bench.model import Formula, Plot, Row, row

REAL, QUICK_REAL = [2, 8, 32, 128, 512], [2, 8]
SIMULATED, QUICK_SIMULATED = [64, 256, 1024, 4096, 8192], [16, 64]
RANKS_A_NODE = 64  # in simulated jobs
LEAST_NODES = 4
ALL_TO_ALL = 64  # most ranks that all send to each other: more channels would fill the machine
LEFT_FREE = 0.2  # share of the memory that stays free
REAL_GROUP, SIMULATED_GROUP = "real processes", "simulated ranks"
SERIES = {REAL_GROUP: "Penstock software", SIMULATED_GROUP: "Penstock"}

# The output of lab/bench/mpi/ranks.c: operation, metric, factor.
FIGURES: Dict[str, Tuple[str, str, float]] = {
    "start_cpu_s": ("MPI_Init", "cpu_s", 1), "start_pool": ("MPI_Init", "pool_MB", 1e-6),
    "barrier_cpu_us": ("barrier", "cpu_us", 1), "allreduce_cpu_us": ("allreduce", "cpu_us", 1),
    "neighbours_cpu_us": ("message to a neighbour", "cpu_us", 1), "neighbours_pool": ("two neighbours each", "pool_MB", 1e-6),
    "all_cpu_us": ("message, all to all", "cpu_us", 1), "all_pool": ("all to all", "pool_MB", 1e-6),
    "fence_cpu_us": ("fence", "cpu_us", 1), "fence_pool": ("a window", "pool_MB", 1e-6),
    "idle_cpu_s": ("a second of waiting", "cpu_s", 1), "idle_reads": ("waiting", "reads_per_s", 1),
    "private_kB": ("at the end", "private_MB", 1e-3), "threads": ("at the end", "threads", 1),
    "descriptors": ("at the end", "descriptors", 1), "cpu_s": ("the whole job", "cpu_s", 1)}


def free_bytes() -> int:
    for line in open("/proc/meminfo", encoding="ascii"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 0


class Room:
    """Estimates from the last size whether the next one fits into the time and memory left."""

    def __init__(self, run: Run, limit: float) -> None:
        self.run, self.until = run, run.share.clock() + limit
        self.last: Optional[Tuple[int, float, float]] = None  # ranks, seconds, bytes

    def refuses(self, ranks: int) -> Optional[str]:
        """The reason why a size does not fit; None if it fits."""
        if self.last is None:
            return None
        before, seconds, taken = self.last
        times = ranks / before
        if self.run.settings.procs is None and self.run.share.clock() + seconds * times ** 1.5 > self.until:
            return f"{ranks:,} ranks would not be done in time: give a longer --limit, or --procs {ranks}"
        if taken * times > (1 - LEFT_FREE) * free_bytes():
            return f"{ranks:,} ranks need about {taken * times / 1e9:.0f} GB of memory, {free_bytes() / 1e9:.0f} GB are free"
        return None

    def measured(self, ranks: int, seconds: float, taken: float) -> None:
        self.last = ranks, seconds, taken


def real_figures(run: Run, ranks: int, program: str) -> Dict[str, float]:
    nodes = min(LEAST_NODES, ranks)
    command = str(run.tools.command)
    launcher = [command, "run", "-n", str(ranks), "--nodes", str(nodes), "--mode", "software", "--mpiexec", run.tools.mpiexec(), "--"]
    calls = "3" if run.settings.quick or ranks > 64 else "10"
    idle = "2" if run.settings.quick else "8"
    asks = ["--pool", f"{command} pool info --json", "--traffic", f"{command} ps --traffic={'1' if run.settings.quick else '3'} --json"]
    everything = ["--all"] if ranks <= ALL_TO_ALL else []
    said = jobs.output([*launcher, program, "--calls", calls, "--fences", calls, "--idle", idle, *everything, *asks],
                       run.timeout(3), jobs.clean_environment())
    return {name: float(value) for name, value in (line.split() for line in said.splitlines() if line.strip())}


def real(run: Run, limit: float) -> None:
    program = str(run.tools.compiled("bench/ranks.c"))
    room = Room(run, limit)
    for ranks in run.settings.procs_or(REAL, QUICK_REAL):
        why = room.refuses(ranks)
        if why:
            run.lacks(why)
            continue
        run.progress(0, 0, f"{ranks} processes")
        begun = time.monotonic()
        figures = real_figures(run, ranks, program)
        room.measured(ranks, time.monotonic() - begun, ranks * 1e3 * figures["private_kB"] + max(
            value for name, value in figures.items() if name.endswith("_pool")))
        for name, (op, metric, factor) in FIGURES.items():
            if name in figures:
                value = figures[name] / (ranks if metric == "reads_per_s" else 1)
                run.add(row(SERIES[REAL_GROUP], op, metric, [value * factor], procs=ranks, group=REAL_GROUP,
                            wall=jobs.enough_cores(ranks)))


def simulated(run: Run, limit: float) -> None:
    """Runs simulated_ranks: lines read and written in each phase by all ranks and by the busiest; serialized accesses; time."""
    program = str(run.tools.program("simulated_ranks"))
    room = Room(run, limit)
    for ranks in run.settings.procs_or(SIMULATED, QUICK_SIMULATED):
        why = room.refuses(ranks)
        if why:
            run.lacks(f"simulated: {why}")
            continue
        run.progress(0, 0, f"{ranks} simulated ranks")
        nodes = max(min(LEAST_NODES, ranks), math.ceil(ranks / RANKS_A_NODE))
        if ranks % nodes:
            run.lacks(f"{ranks} simulated ranks do not divide among {nodes} nodes")
            continue
        begun = time.monotonic()
        try:
            said = jobs.output([program, "--ranks", str(ranks), "--nodes", str(nodes)], run.timeout(10), jobs.clean_environment())
        except Failed as error:
            run.lacks(f"{ranks:,} simulated ranks: {error}")
            continue
        peak = 0.0
        for op, *values in (line.split("\t") for line in said.splitlines() if "\t" in line):
            facts = {"procs": ranks, "group": SIMULATED_GROUP, "wall": False}
            if op == "peak":
                peak = float(values[0])
            elif op == "pool":
                run.add(row(SERIES[SIMULATED_GROUP], "all open", "pool_MB", [float(values[0]) / 1e6], **facts))
            else:
                reads, writes, peak_reads, peak_writes, _, peak_waits, peak_ns = map(float, values)
                for metric, value in (("reads_rank", reads / ranks), ("writes_rank", writes / ranks), ("reads_most", peak_reads),
                                      ("writes_most", peak_writes), ("accesses", peak_waits), ("model_us", peak_ns / 1e3)):
                    run.add(row(SERIES[SIMULATED_GROUP], op, metric, [value], **facts))
        room.measured(ranks, time.monotonic() - begun, peak)


def add_formulas(run: Run, rows: Sequence[Row]) -> None:
    lines: Dict[Tuple[str, Optional[str], str, str], List[Tuple[float, float]]] = {}
    for each in rows:
        lines.setdefault((each.series, each.group, each.op, each.metric), []).append((float(each.procs), each.median))
    for (series, group, op, metric), points in lines.items():
        found = growth.fitted(points)
        run.formula(Formula(series, op, metric, found.said if found else "", group))


def run(run: Run) -> None:
    limit = run.settings.limit or (40.0 if run.settings.quick else math.inf if run.settings.repeat else 60.0)
    for part, name in ((real, REAL_GROUP), (simulated, SIMULATED_GROUP)):
        try:
            part(run, limit)
        except (Absent, Failed) as error:
            run.lacks(f"{name}: {error}")
    add_formulas(run, run.outcome.rows)
    for group, ops, metric, unit in ((REAL_GROUP, ("MPI_Init", "a second of waiting"), "cpu_s", "CPU-seconds of all"),
                                     (SIMULATED_GROUP, ("attach", "endpoint", "messages", "join", "barrier", "window", "fence", "leave"), "model_us",
                                      "modelled microseconds of the slowest rank")):
        for op in ops:
            run.plot(Plot(f"ranks-{op.replace(' ', '-')}", f"{op}, {group}", {"op": op, "metric": metric, "group": group}, x="procs", unit=unit))


EXPERIMENT = Experiment(
    "ranks", "Thousands of ranks", "Jobs of more and more ranks: CPU time, space in the pool, memory and lines read from the device by real "
    "processes; lines that a simulated rank reads from the device and writes to it in each phase of a job, and the time that it takes if "
    "each rank has a core and the device answers in 400 ns. Each line has the formula that fits it best.", source="cMPI, section 3; Penstock's own", emulated="Real ranks share this machine's cores, on four emulated nodes; "
    "simulated ones run the product's sources on memory without coherence, 64 to a node.", run=run, order=190, needs="real processes: MPICH; "
    "simulated ranks: a build tree with tests")
