"""Figure 9 of cMPI: cell sizes of the published ring, compared with our adaptive channel."""

from __future__ import annotations

from functools import partial
from typing import Sequence

from penstock.bench import jobs
from penstock.bench.experiment import Experiment, Figures, Run
from penstock.bench.model import Plot

SIZES = [64, 1024, 8192, 16384, 65536, 262144, 1048576]
QUICK_SIZES = [64, 65536]
CELLS = [16384, 32768, 65536, 131072]


def pairs(run: Run, mode: str, ranks: int, sizes: Sequence[int]) -> Figures:
    """Measures pairs that stream concurrently. Times are measured only if each rank has a core."""
    wall = jobs.enough_cores(ranks)
    command = [str(run.tools.program("cells_bench")), "--rounds", "1", "--mode", mode, "--ranks", str(ranks), "--cells",
               jobs.sizes_argument(CELLS), "--sizes", jobs.sizes_argument(sizes)]
    found = jobs.figures_of(run, command, group=f"{mode} mode", wall=wall)
    return {key: value for key, value in found.items() if wall or key.metric != "bandwidth_MBps"}


def run(run: Run) -> None:
    sizes = run.settings.sizes_or(SIZES, QUICK_SIZES)
    modes = run.settings.modes or ("software",)
    for mode in modes:
        if jobs.enough_cores(2):
            command = [str(run.tools.program("ring_bench")), "--rounds", "1", "--mode", mode, "--cells",
                       jobs.sizes_argument(CELLS), "--sizes", jobs.sizes_argument(sizes)]
            run.rounds({mode: partial(jobs.figures_of, run, command, group=f"{mode} mode")}, 5, quick_rounds=1)
        else:
            run.lacks("latency between two processes needs two cores")
        for ranks in run.settings.procs_or([16, 32], [4]):
            if ranks % 2:
                run.lacks(f"{ranks} ranks: pairs need an even number")
                continue
            run.rounds({f"{ranks} ranks": partial(pairs, run, mode, ranks, sizes)}, 3, quick_rounds=1)
            if not jobs.enough_cores(ranks):
                run.lacks(f"{jobs.crowd(ranks)}: CPU time and looks only, no times")
    for row in run.outcome.rows:
        row.baseline = row.series.startswith("cMPI ring")
    run.plot(Plot("cells", "Cell sizes of the published ring (cMPI, Figure 9)",
                  {"op": "bandwidth", "metric": "bandwidth_MBps", "group": f"{modes[0]} mode", "procs": 2}, unit="MB/s"),
             Plot("cells-latency", "Cell sizes: latency", {"op": "latency", "group": f"{modes[0]} mode"}, unit="microseconds"),
             Plot("cells-cpu", "Cell sizes: CPU time of moving data, 16 ranks",
                  {"op": "bandwidth", "metric": "cpu_s_per_GB", "group": f"{modes[0]} mode", "procs": 16}, unit="CPU-s/GB"))


EXPERIMENT = Experiment(
    "cells", "Cell sizes of the published ring", "Latency and streaming of the published ring with cells of 16 to 128 KB, "
    "beside the channel of this product, which adapts, and the raw copies; pairs of 16 and 32 ranks that stream at the same "
    "time, with more ranks than cores their CPU time and the looks that found nothing.", source="cMPI, Figure 9",
    emulated="Processes of one host; the pool is its memory.", run=run, order=50, needs="two cores for times")
