"""Figure 9 of cMPI: the cell size of the published ring, beside the channel that adapts."""

from __future__ import annotations

from functools import partial

from penstock.bench import jobs
from penstock.bench.experiment import Experiment, Run
from penstock.bench.model import Plot, theirs

SIZES = [64, 1024, 8192, 16384, 65536, 262144, 1048576]
QUICK_SIZES = [64, 65536]
CELLS = [16384, 32768, 65536, 131072]


def run(run: Run) -> None:
    sizes = run.settings.sizes_or(SIZES, QUICK_SIZES)
    modes = run.settings.modes or ("software",)
    for mode in modes:
        command = [str(run.tools.program("ring_bench")), "--rounds", "1", "--mode", mode, "--cells",
                   jobs.sizes_argument(CELLS), "--sizes", jobs.sizes_argument(sizes)]
        run.rounds({mode: partial(jobs.figures_of, run, command, group=f"{mode} mode")}, 5, quick_rounds=1)
    for row in run.outcome.rows:
        row.baseline = row.series.startswith("cMPI ring")
    for cell, value, size in ((16384, 3600, 8192), (32768, 3900, 16384), (65536, 6000, 65536)):
        run.add(theirs(f"cMPI, {cell // 1024} KB cells", "bandwidth", "bandwidth_MBps", value, bytes=size, procs=32,
                       group="cMPI, Figure 9"))
    run.lacks("16 and 32 ranks, as in the figure: the ring is between two processes")
    run.plot(Plot("cells", "Cell sizes of the published ring (cMPI, Figure 9)", {"op": "bandwidth", "group": f"{modes[0]} mode"},
                  unit="MB/s"),
             Plot("cells-latency", "Cell sizes: latency", {"op": "latency", "group": f"{modes[0]} mode"}, unit="microseconds"))


EXPERIMENT = Experiment(
    "cells", "Cell sizes of the published ring", "Latency and streaming of the published ring with cells of 16 to 128 KB, "
    "beside the channel of this product, which adapts, and the raw copies.", source="cMPI, Figure 9",
    emulated="Two processes of one host; the pool is its memory.", run=run, order=50, needs="two cores")
