"""OMB-CXL: message buffers in host memory (H) or in the pool (D), also with TCP as the network."""

from __future__ import annotations

from functools import partial
from typing import Dict, Sequence

from penstock.bench import jobs
from penstock.bench.experiment import Experiment, Figures, Measure, Run
from penstock.bench.experiments import pt2pt
from penstock.bench.model import Plot

SIZES, QUICK_SIZES = [8, 4096, 65536, 1048576], [8, 65536]
PLACES = ["HH", "HD", "DH", "DD"]


def measurements(run: Run, pool: jobs.TemporaryPool, sizes: Sequence[int], tests: Sequence[str]) -> Dict[str, Measure]:
    found: Dict[str, Measure] = {}
    program = str(run.tools.compiled("bench/messages.c"))
    with_pool = str(run.tools.compiled("bench/messages.c", with_penstock=True))

    def all_tests(name: str, kind: jobs.Transport, command: Sequence[str]) -> Figures:
        return {key: value for test in tests
                for key, value in pt2pt.measure(run, name, kind, command, test, 2, sizes).items()
                if key.metric in ("latency_us", "bandwidth_MBps")}

    for name, kind in jobs.transports(run, 2, [jobs.TCP, *jobs.own_modes(run, ["software"])]).items():
        for place in PLACES:
            in_pool = name == jobs.TCP and "D" in place
            command = [with_pool, "--pool", pool.spec] if in_pool else [program]
            label = f"{name}, {place}"
            found[label] = partial(all_tests, label, kind, [*command, "--place", place])
    return found


def run(run: Run) -> None:
    if not jobs.enough_cores(2):
        run.lacks("two ranks need two cores")
        return
    sizes = run.settings.sizes_or(SIZES, QUICK_SIZES)
    tests = ["latency", "bandwidth"] if run.settings.quick else ["latency", "bandwidth", "bibw"]
    with jobs.TemporaryPool(run) as pool:
        run.rounds(measurements(run, pool, sizes, tests), 3, quick_rounds=1,
                   baselines=[f"{jobs.TCP}, {place}" for place in PLACES])
    for test in tests:
        run.plot(Plot(f"placement-{test}", f"Placements: {test}", {"op": test, "group": None}, unit=pt2pt.TESTS[test]))


EXPERIMENT = Experiment(
    "placement", "Buffers in host memory or in the pool", "Two-sided messages between buffers in host memory (H) and in the "
    "pool (D), the first letter of the sent one; also with TCP as the network, from and to objects of a pool.",
    source="OMB-CXL, section 5", emulated="The pool is memory of this host, where the paper's was a device of an emulator: "
    "compare ratios only.", run=run, order=60, needs="MPICH, two cores")
