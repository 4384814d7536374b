"""Figures 7 and 8 of cMPI: two-sided messages. Adds what the paper leaves out: the raw socket, the raw limit, the
published ring without an MPI, CPU time, and other programs' figures."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Dict, Optional, Sequence

from penstock.bench import jobs
from penstock.bench.experiment import Absent, Experiment, Failed, Figures, Key, Measure, Run
from penstock.bench.model import Plot

SIZES = [8, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304]
QUICK_SIZES = [8, 65536]
WITHIN_THE_WINDOW = 896  # bytes in lines that a receiver reads in one batch (docs/protocols/channel.md)
TESTS = {"latency": "latency_us", "bandwidth": "bandwidth_MBps", "bibw": "bandwidth_MBps", "exchange": "time_us", "self": "time_us"}
BESIDE = {"latency": ("cpu_us", "bytes_socket", "messages", "bytes_pool"), "bandwidth": ("cpu_s_per_GB",)}
SWAPS = ("exchange", "self")  # figures that `penstock model scaling --measured` needs besides latencies


def serialized(name: str, size: int) -> Optional[int]:
    """Serialized accesses of a message: the store of the line, and the load that finds it."""
    return 2 if name.startswith("Penstock software") and size <= WITHIN_THE_WINDOW else None


def measure(run: Run, name: str, transport: jobs.Transport, command: Sequence[str], test: str, ranks: int,
            sizes: Sequence[int], group: Optional[str] = None) -> Figures:
    """Runs lab/bench/mpi/messages.c. Times are measured only if each rank has a core."""
    figures: Dict[Key, float] = {}
    wall = jobs.enough_cores(ranks)
    few = ["--iterations", "20"] if run.settings.quick or not wall else []
    counting = jobs.counting(run, ranks, name)
    words = [*command, test, "--sizes", jobs.sizes_argument(sizes), *few, *counting]
    for size_text, value, cpu_us, sent, received, messages, carried in jobs.lines_of(run, transport, words):
        size = int(size_text)
        what = partial(Key, test, bytes=size, group=group, procs=ranks, wall=wall)
        if wall:
            each = None if test in SWAPS else serialized(name, size)
            figures[what(metric=TESTS[test], serialized=each)] = float(value)
        if test == "latency":
            figures[what(metric="cpu_us")] = float(cpu_us)
            figures[what(metric="bytes_socket")] = float(sent) + float(received)
            if counting:
                figures[what(metric="messages")] = float(messages)
                figures[what(metric="bytes_pool")] = float(carried)
        elif test == "bandwidth":
            figures[what(metric="cpu_s_per_GB")] = 2 * float(cpu_us) / size * 1e3
    return figures


def with_mpi(run: Run, ranks: int, sizes: Sequence[int]) -> Dict[str, Measure]:
    program = str(run.tools.compiled("bench/messages.c"))
    names = [jobs.TCP, jobs.OWN_SHM, jobs.LIBFABRIC_SHM, *jobs.own_modes(run)]
    if not jobs.enough_cores(ranks):
        names = [jobs.TCP, *jobs.own_modes(run, ["software"])]

    def both(name: str, kind: jobs.Transport) -> Figures:
        tests = [test for test in ("latency", "bandwidth", *(SWAPS if ranks == 2 and jobs.enough_cores(2) else ()))
                 if run.settings.wants_metric(TESTS[test], *BESIDE.get(test, ()))]
        return {key: value for test in tests
                for key, value in measure(run, name, kind, [program], test, ranks, sizes).items()}

    return {name: partial(both, name, kind) for name, kind in jobs.transports(run, ranks, names).items()}


def without_mpi(run: Run, sizes: Sequence[int]) -> Dict[str, Measure]:
    """Measures the raw socket, the pool's raw limit and the published ring, each once a round."""
    modes = ",".join(run.settings.modes or ("software", "hardware"))
    length = ["--sizes", jobs.sizes_argument(sizes)]
    found: Dict[str, Measure] = {
        "raw TCP socket": partial(_program, run, "socket_bench", length),
        "without MPI": partial(_program, run, "ring_bench", ["--mode", modes, *length])}
    if not run.settings.quick:
        found["libfabric, without MPI"] = partial(_program, run, "fi_bench", ["--mode", modes])
    return found


def _program(run: Run, name: str, options: Sequence[str]) -> Figures:
    """Runs a measuring program. Errors: Absent if it is not built."""
    return jobs.figures_of(run, [str(run.tools.program(name)), "--rounds", "1", *options])


def independent(run: Run, sizes: Sequence[int]) -> Dict[str, Measure]:
    """Measurements by OSU's and Intel's programs, if --osu names a folder of them."""
    if not run.settings.osu:
        return {}
    folder = Path(run.settings.osu)
    found: Dict[str, Measure] = {}
    for name, kind in jobs.transports(run, 2, [jobs.TCP, *jobs.own_modes(run)]).items():
        for file, op in (("osu_latency", "latency"), ("osu_bw", "bandwidth"), ("IMB-MPI1", "latency")):
            path = next(iter(sorted(folder.rglob(file))), None)
            if path:
                found[f"{file} over {name}"] = partial(_independent, run, kind, path.resolve(), op, sizes)
    if not found:
        run.lacks(f"--osu: no osu_latency, osu_bw or IMB-MPI1 lies in {folder}")
    return found


def _independent(run: Run, kind: jobs.Transport, path: Path, op: str, sizes: Sequence[int]) -> Figures:
    figures: Dict[Key, float] = {}
    imb = path.name == "IMB-MPI1"
    if imb:
        lines = jobs.lines_of(run, kind, [str(path), "PingPong"])
    else:
        try:
            lines = jobs.lines_of(run, kind, [str(path), "-m", f"1:{max(sizes)}", "-i", "200"])
        except Failed:  # versions before 5 have no -m
            lines = jobs.lines_of(run, kind, [str(path), "-i", "20"])
    for line in lines:
        numeric = len(line) >= (4 if imb else 2) and re.fullmatch(r"\d+", line[0])
        if numeric and int(line[0]) in sizes:
            figures[Key(op, TESTS[op], int(line[0]), procs=2)] = float(line[2] if imb else line[1])
    return figures


def run(run: Run) -> None:
    sizes = run.settings.sizes_or(SIZES, QUICK_SIZES)
    for ranks in run.settings.procs_or([2, 4], [2]):
        measurements: Dict[str, Measure] = {}
        try:
            measurements = with_mpi(run, ranks, sizes)
        except Absent as error:
            run.lacks(f"with MPI: {error}")
        if ranks == 2 and jobs.enough_cores(2):
            others = independent(run, sizes) if measurements else {}
            measurements = {**measurements, **without_mpi(run, sizes), **others}
        baselines = [*jobs.BASELINES, "raw TCP socket", "raw TCP socket, polled"]
        run.rounds(measurements, 5 if jobs.enough_cores(ranks) else 2, baselines=baselines)
        if not jobs.enough_cores(ranks):
            run.lacks(f"{jobs.crowd(ranks)}: CPU time, messages and bytes only, no times")
    for op, words in (("latency", "microseconds, one way"), ("bandwidth", "MB/s")):
        run.plot(Plot(f"pt2pt-{op}", f"Two-sided {op} (cMPI, Figures 7 and 8)", {"op": op, "metric": TESTS[op], "group": None},
                      unit=words))
    run.plot(Plot("pt2pt-cpu", "CPU time of moving data", {"op": "bandwidth", "metric": "cpu_s_per_GB"}, unit="CPU-s/GB"))


EXPERIMENT = Experiment(
    "pt2pt", "Two-sided messages", "Latency and bandwidth of MPI messages between pairs of ranks over each transport, beside "
    "a raw socket, the raw limit of the pool and the published ring; CPU time of moving a GB.", source="cMPI, Figures 7 and 8",
    emulated="Two emulated hosts are processes of one, each bound to a core; the pool is its memory, and TCP its loopback.",
    run=run, order=30, needs="MPICH, two cores; without MPICH what needs no MPI")
