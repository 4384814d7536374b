"""Collectives in a computing switch: their cost on the hosts, compared with the plain pool and TCP. Counts, no times."""

from __future__ import annotations

from functools import partial
from typing import Dict, List, Sequence

from penstock.bench import jobs
from penstock.bench.experiment import Absent, Experiment, Failed, Figures, Measure, Run
from penstock.bench.experiments.collectives import usage
from penstock.bench.model import Plot, row

SIZES, QUICK_SIZES = [1024, 65536, 1048576, 16777216, 67108864], [1024, 65536]
RANKS, QUICK_RANKS = [2, 4, 8, 16], [2, 4]
OPS = ["allreduce", "reduce_scatter"]
COUNTED = ["bytes_up", "bytes_down", "packets", "bytes_reduced"]
NAMES = {"one_shot": "plain pool, one shot", "two_shot": "plain pool, two shots", "switch": "switch"}
MEMORY = 2 << 30  # bytes of all inputs and outputs
MOST = 32  # ranks, as in lab/bench/switch_counts.cpp
LONG = 64 << 20  # bytes of all ranks from which on one call suffices


def parts(ranks: int, size: int) -> int:
    """The number of measurements that one of this size counts as: cores are few, and each rank copies and adds."""
    return 1 + ranks * size // LONG


def counted(run: Run, program: str, ranks: int, size: int) -> None:
    """Adds link bytes, packets and reduced bytes of the busiest rank, and CPU time of ranks and switch."""
    calls = 1 if run.settings.quick or ranks * size > LONG else 3
    command = [program, "--ranks", str(ranks), "--sizes", str(size), "--calls", str(calls)]
    for line in jobs.output(command, run.timeout(parts(ranks, size)), jobs.clean_environment()).splitlines():
        if line.startswith("#"):
            continue
        way, op, _, _, *counts, rank_us, switch_us, bits = line.split()
        if bits != "equal":
            raise Failed(f"{way}, {op} of {size} bytes on {ranks} ranks: not the bits of one_shot")
        what = {"bytes": size, "procs": ranks, "wall": False}
        run.add(*(row(NAMES[way], op, metric, [float(count)], **what) for metric, count in zip(COUNTED, counts)),
                row(NAMES[way], op, "cpu_us", [float(rank_us)], **what))
        if way == "switch":
            run.add(row("the switch itself", op, "cpu_us", [float(switch_us)], **what))


def tcp(run: Run, ranks: int, sizes: Sequence[int]) -> Dict[str, Measure]:
    program = str(run.tools.compiled("bench/collectives.c"))

    def all_sizes(kind: jobs.Transport) -> Figures:
        return {key: value for size in sizes
                for key, value in usage(run, kind, program, [size], ranks, OPS, 3, parts(ranks, size)).items()}

    return {name: partial(all_sizes, kind) for name, kind in jobs.transports(run, ranks, [jobs.TCP]).items()}


def run(run: Run) -> None:
    program = str(run.tools.program("switch_counts"))
    sizes = run.settings.sizes_or(SIZES, QUICK_SIZES)
    for ranks in run.settings.procs_or(RANKS, QUICK_RANKS):
        if not 2 <= ranks <= MOST:
            run.lacks(f"--procs {ranks}: a switch serves 2 to {MOST} ranks here")
            continue
        usable: List[int] = [size for size in sizes if 2 * ranks * size <= MEMORY]
        if usable != list(sizes):
            run.lacks(f"{ranks} ranks: calls of {max(sizes)} bytes need more than {MEMORY >> 30} GiB")
        if not usable:
            continue
        for number, size in enumerate(usable):
            run.progress(number, len(usable), f"{ranks} ranks, {size} bytes")
            counted(run, program, ranks, size)
        try:
            run.rounds(tcp(run, ranks, usable), 1, quick_rounds=1, baselines=[jobs.TCP])
        except Absent as error:
            run.lacks(f"TCP: {error}")
    small = [size for size in sizes if size <= 1 << 20] or sizes
    for op in OPS:
        for metric, words in (("bytes_down", "bytes"), ("bytes_reduced", "bytes")):
            run.plot(Plot(f"in-switch-{op}-{metric}", f"{op}: {metric.replace('_', ' ')} of a host",
                          {"op": op, "metric": metric, "bytes": max(small)}, x="procs", unit=words))


EXPERIMENT = Experiment(
    "in_switch", "Collectives in a switch that computes", "What an allreduce and a reduce_scatter cost a host: bytes on its link, packets, "
    "bytes that its own arithmetic takes, CPU time; through the plain pool in one shot and in two, and in a switch, whose CPU time is told "
    "apart. The results of all ways are compared bit by bit. TCP: bytes of sockets, both directions, and CPU time, of 3 calls.",
    source="ETRI/OSU slides, iMEX", emulated="The switch is a thread, the hosts are emulated nodes: no times are shown. The slides have no "
    "figures.", run=run, order=75, needs="nothing; TCP needs MPICH")
