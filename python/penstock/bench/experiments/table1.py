"""Table 1 of cMPI, with additional rows: the reader's side of a flush, a read sweep of the pool, and the transfer of a
line, which alone predicts the latency of a message."""

from __future__ import annotations

from functools import partial
from typing import Dict, List, Sequence, Union

from penstock.bench import jobs, perftest
from penstock.bench.experiment import Absent, Experiment, Failed, Figures, Key, Measure, Run
from penstock.bench.model import Plot
from penstock.bench.places import usable_cores

GROUP = "cMPI, Table 1"


def threads(run: Run) -> List[int]:
    """The numbers of threads: the paper's 2 to 32, but no more than there are cores."""
    wanted = run.settings.procs_or([1, 2, 4, 8, 16, 32], [1])
    return [each for each in wanted if each <= usable_cores()] or [1]


def memory(run: Run, what: str, size: str) -> Measure:
    """Makes a measurement that runs a round of lab/bench/memory_bench."""
    pool, mode = run.settings.pool, (run.settings.modes or ("software",))[0]
    command = [str(run.tools.program("memory_bench")), "--rounds", "1", "--what", what, "--mode", mode, "--threads",
               jobs.sizes_argument(threads(run)), "--size", size, "--sizes", "64", *(["--pool", pool] if pool else [])]
    return partial(jobs.figures_of, run, command)


def one_line(run: Run) -> Figures:
    """Measures a whole line with the widest stores, as in the table. The experiment coherence measures all widths."""
    found: Dict[Key, Union[float, Sequence[float]]] = {}
    for key, values in memory(run, "write-back,reader", "16M")().items():
        if key.op == "store and write back" and key.series in ("libc memset", "whole lines"):
            found[Key("store, write back, fence", "latency_us", 64, serialized=1,
                      series=f"pool, store and {key.group}" if key.series == "libc memset" else "pool, store past the cache")] = values
        elif key.group == "reader" and key.series != "load only":
            found[Key("drop, fence, load", "latency_us", 64, serialized=1, series=f"pool, {key.series}")] = values
    return found


def hand_over(run: Run) -> Figures:
    found = jobs.limits_of(run, run.settings.modes or ("software", "hardware"))
    return {key: value for key, value in found.items() if key.op == "hand-over" and (key.bytes or 0) <= 56}


def others(run: Run) -> Dict[str, Measure]:
    """Network measurements, if there is a network: a socket to --peer, and RDMA."""
    found: Dict[str, Measure] = {}
    if run.settings.peer:
        socket = [str(run.tools.program("socket_bench")), "--rounds", "1", "--sizes", "8,1048576", "--peer", run.settings.peer]
        found[f"raw TCP socket to {run.settings.peer}"] = partial(jobs.figures_of, run, socket)
    else:
        run.lacks("TCP is within this host: name another by --peer HOST")
    try:
        found.update(perftest.measurements(run))
    except Absent as error:
        run.lacks(str(error))
    return found


def run(run: Run) -> None:
    size = "64M" if run.settings.quick else "512M"
    measurements: Dict[str, Measure] = {"memory": memory(run, "chase,sweep,flushed", size),
                                        "one line": partial(one_line, run)}
    if usable_cores() >= 2:
        socket = [str(run.tools.program("socket_bench")), "--rounds", "1", "--sizes", "8,1048576"]
        measurements["raw TCP socket"] = partial(jobs.figures_of, run, socket)
        measurements["hand-over of a line"] = partial(hand_over, run)
    else:
        run.lacks("a hand-over and a socket need two cores")
    measurements.update(others(run))
    try:
        run.rounds(measurements, 5, quick_rounds=1, baselines=["main memory"])
    except Failed as error:
        run.lacks(str(error))
    for row in run.outcome.rows:
        row.baseline = row.baseline or row.series.startswith(("raw TCP socket", "RDMA"))
    run.plot(Plot("table1-theirs", "Table 1 of cMPI, as published: latency", {"group": GROUP, "op": "latency"}, x="series",
                  logx=False, unit="microseconds"),
             Plot("table1-load", "A dependent load", {"op": "dependent load"}, x="series", logx=False, logy=False,
                  unit="microseconds"))


EXPERIMENT = Experiment(
    "table1", "Memory, pool and TCP at their barest", "Dependent loads and sweeps of main memory and of a pool, a line written "
    "back, a line read anew, the hand-over of a line, and a TCP socket.", source="cMPI, Table 1",
    emulated="The pool is memory of this host, so that its rows show what the instructions cost, not what a CXL device does.",
    run=run, order=20, needs="nothing; two cores for the hand-over")
