"""The time of a step of examples/halo.c over each transport."""

from __future__ import annotations

import re
from functools import partial
from typing import Dict

from penstock.bench import jobs
from penstock.bench.experiment import Experiment, Failed, Figures, Key, Run
from penstock.bench.model import Plot

SIDES, QUICK_SIDES = [64, 256, 1024], [64]
FIGURES = re.compile(r"halo: ok: .* ([\d.]+) us a step, ([\d.]+) of them in the exchange")


def measure(run: Run, transport: jobs.Transport, program: str, ranks: int) -> Figures:
    figures: Dict[Key, float] = {}
    steps = "10" if run.settings.quick else "200"
    for side in run.settings.sizes_or(SIDES, QUICK_SIDES):
        words = jobs.lines_of(run, transport, [program, str(side), str(side), steps])
        found = FIGURES.search("\n".join(" ".join(line) for line in words))
        if not found:
            raise Failed(f"examples/halo.c printed no figures for a plate of {side} x {side}")
        group = f"{side} x {side} cells"
        for op, value in zip(("step", "exchange"), found.groups()):
            figures[Key(op, "time_us", group=group, procs=ranks)] = float(value)
    return figures


def run(run: Run) -> None:
    program = str(run.tools.compiled("examples/halo.c"))
    for ranks in run.settings.procs_or([2], [2]):
        if not jobs.enough_cores(ranks):
            run.lacks(f"{jobs.crowd(ranks)}: times would show the scheduler")
            continue
        names = [jobs.TCP, jobs.OWN_SHM, *jobs.own_modes(run)]
        kinds = jobs.transports(run, ranks, names)
        run.rounds({name: partial(measure, run, kind, program, ranks) for name, kind in kinds.items()}, 5,
                   baselines=jobs.BASELINES)
    run.plot(Plot("halo", "Exchange of the edges of a plate", {"op": "exchange"}, x="series", logx=False, logy=False,
                  unit="microseconds"))


EXPERIMENT = Experiment(
    "halo", "Halo exchange by windows", "A step of a heat equation on plates of cells, and the exchange of their edges by "
    "one-sided operations in it.", source="examples/halo.c", emulated="The two hosts are processes of one; the pool is its "
    "memory.", run=run, order=80, needs="MPICH, two cores")
