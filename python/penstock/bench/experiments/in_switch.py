"""Collectives in a switch that computes: what they cost a host, beside the plain pool and TCP. Counts, no times."""

from __future__ import annotations

import subprocess
from functools import partial
from typing import Dict, List, Sequence

from penstock.bench import jobs
from penstock.bench.experiment import Absent, Experiment, Failed, Figures, Key, Measure, Run
from penstock.bench.experiments.collectives import usage
from penstock.bench.model import Plot, row

SIZES, QUICK_SIZES = [1024, 65536, 1048576, 16777216, 67108864], [1024, 65536]
RANKS, QUICK_RANKS = [2, 4, 8, 16], [2, 4]
OPS = ["allreduce", "reduce_scatter"]
COUNTED = ["bytes_up", "bytes_down", "packets", "bytes_reduced"]
NAMES = {"one_shot": "plain pool, one shot", "two_shot": "plain pool, two shots", "switch": "switch"}
MEMORY = 2 << 30  # of inputs and outputs together


def counted(run: Run, program: str, ranks: int, sizes: Sequence[int]) -> None:
    """Of the rank that does most: a link's bytes, packets, bytes reduced; CPU time of ranks and of the switch."""
    done = subprocess.run([program, "--ranks", str(ranks), "--sizes", jobs.sizes_argument(sizes), "--calls",
                           "1" if run.settings.quick else "3"], capture_output=True, text=True, timeout=run.settings.timeout)
    if done.returncode != 0:
        raise Failed(done.stderr.strip())
    for line in done.stdout.splitlines():
        if line.startswith("#"):
            continue
        way, op, _, size, *counts, rank_us, switch_us, bits = line.split()
        if bits != "equal":
            raise Failed(f"{way}, {op} of {size} bytes on {ranks} ranks: not the bits of one_shot")
        what = {"bytes": int(size), "procs": ranks, "wall": False}
        run.add(*(row(NAMES[way], op, metric, [float(count)], **what) for metric, count in zip(COUNTED, counts)),
                row(NAMES[way], op, "cpu_us", [float(rank_us)], **what))
        if way == "switch":
            run.add(row("the switch itself", op, "cpu_us", [float(switch_us)], **what))


def tcp(run: Run, ranks: int, sizes: Sequence[int]) -> Dict[str, Measure]:
    program = str(run.tools.compiled("bench/collectives.c"))

    def of_ours(kind: jobs.Transport) -> Figures:
        return {key: value for key, value in usage(run, kind, program, sizes, ranks).items() if key.op in OPS}

    return {name: partial(of_ours, kind) for name, kind in jobs.transports(run, ranks, [jobs.TCP]).items()}


def run(run: Run) -> None:
    program = str(run.tools.program("switch_counts"))
    sizes = run.settings.sizes_or(SIZES, QUICK_SIZES)
    for ranks in run.settings.procs_or(RANKS, QUICK_RANKS):
        usable: List[int] = [size for size in sizes if 2 * ranks * size <= MEMORY]
        if usable != list(sizes):
            run.lacks(f"{ranks} ranks: calls of {max(sizes)} bytes need more than {MEMORY >> 30} GiB")
        counted(run, program, ranks, usable)
        if ranks > 4:
            continue
        try:
            run.rounds(tcp(run, ranks, [size for size in usable if size <= 1 << 20]), 1, quick_rounds=1, baselines=[jobs.TCP])
        except Absent as error:
            run.lacks(f"TCP: {error}")
    for op in OPS:
        for metric, words in (("bytes_down", "bytes"), ("bytes_reduced", "bytes")):
            run.plot(Plot(f"in-switch-{op}-{metric}", f"{op}: {metric.replace('_', ' ')} of a host",
                          {"op": op, "metric": metric, "bytes": max(s for s in sizes if s <= 1 << 20)}, x="procs", unit=words))


EXPERIMENT = Experiment(
    "in_switch", "Collectives in a switch that computes", "What an allreduce and a reduce_scatter cost a host: bytes on its link, packets, "
    "bytes that its own arithmetic takes, CPU time; through the plain pool in one shot and in two, and in a switch, whose CPU time is told "
    "apart. The results of all ways are compared bit by bit. TCP, with up to 4 ranks: bytes of sockets and CPU time.",
    source="ETRI/OSU slides, iMEX", emulated="The switch is a thread, the hosts are emulated nodes: no times are shown. The slides have no "
    "figures.", run=run, order=75, needs="nothing; TCP needs MPICH")
