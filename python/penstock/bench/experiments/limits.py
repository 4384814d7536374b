"""The machine's limits without a protocol, and the cost of a receiver with many senders."""

from __future__ import annotations

from functools import partial
from typing import Dict

from penstock.bench import jobs
from penstock.bench.experiment import Experiment, Measure, Run
from penstock.bench.model import Plot


def run(run: Run) -> None:
    modes = run.settings.modes or ("software", "hardware")
    measurements: Dict[str, Measure] = {"limits": partial(jobs.limits_of, run, modes, run.settings.pool)}
    if not run.settings.quick:
        senders = [str(run.tools.program("poll_bench")), "--rounds", "1", "--mode", "software"]
        measurements["many senders"] = partial(jobs.figures_of, run, senders)
    run.rounds(measurements, 7, baselines=["cMPI ring"])
    run.plot(Plot("limits", "Hand-over without a protocol", {"op": "hand-over"}, unit="microseconds"),
             Plot("senders", "An empty look at many senders", {"op": "an empty look"}, x="procs", unit="microseconds"))


EXPERIMENT = Experiment(
    "limits", "The limit without a protocol", "Hand-overs and copies through a pool without any protocol, which is what all "
    "else is compared with; and an empty look at 1 to 128 senders, beside the published way.", source="cMPI, sections 3.3 to 3.5",
    emulated="Two processes of one host; the pool is its memory.", run=run, order=10, needs="two cores")
