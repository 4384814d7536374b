"""Figures 5 and 6 of cMPI: Put and Get with each kind of synchronization, compared with a raw copy."""

from __future__ import annotations

from functools import partial
from typing import Dict, Sequence

from penstock.bench import jobs
from penstock.bench.experiment import Absent, Experiment, Figures, Key, Measure, Run
from penstock.bench.model import Plot

SIZES, QUICK_SIZES = [8, 1024, 16384, 65536, 1048576], [8, 65536]
SYNCS = ["pscw", "fence", "lock", "lock_all"]
TESTS = {"latency": "latency_us", "bandwidth": "bandwidth_MBps"}
BY = {"pscw": "post, start, complete, wait", "fence": "fence", "lock": "lock and unlock", "lock_all": "flush below lock_all",
      "none": "a raw copy past the cache"}


def measure(run: Run, name: str, transport: jobs.Transport, command: Sequence[str], ranks: int, with_raw: bool) -> Figures:
    """Runs both tests of lab/bench/mpi/one_sided.c."""
    figures: Dict[Key, float] = {}
    wall = jobs.enough_cores(ranks)
    few = ["--iterations", "10"] if run.settings.quick or not wall else []
    counting = jobs.counting(run, ranks, name)
    for test, metric in TESTS.items():
        ops = "put,get,raw" if with_raw else "put,get"
        for op, sync, size_text, value, *rest in jobs.lines_of(run, transport, [*command, test, "--op", ops, *few, *counting]):
            size = int(size_text)
            what = partial(Key, f"{op} {test}", bytes=size, group=BY[sync], procs=ranks, wall=wall,
                           series="raw limit" if op == "raw" else None)
            if op == "raw":
                what = partial(what, op=f"put {test}", group=BY["pscw"])
                figures[Key(f"put {test}", metric, size, BY["pscw"], ranks, wall, None, "raw limit")] = float(value)
                continue
            if wall:
                figures[what(metric=metric)] = float(value)
            cpu_us, by_sockets, messages, carried = map(float, rest[-4:])
            if test == "bandwidth":
                figures[what(metric="cpu_s_per_GB")] = cpu_us / size * 1e3
            elif not wall:
                figures[what(metric="cpu_us")] = cpu_us
                figures[what(metric="bytes_socket")] = by_sockets
                if counting:
                    figures[what(metric="messages")] = messages
                    figures[what(metric="bytes_pool")] = carried
    return figures


def with_mpi(run: Run, ranks: int, sizes: Sequence[int]) -> Dict[str, Measure]:
    program = str(run.tools.compiled("bench/one_sided.c"))
    wall = jobs.enough_cores(ranks)
    syncs = ["pscw", "lock"] if run.settings.quick else SYNCS
    names = [jobs.TCP, *([jobs.OWN_SHM] if wall else []), *jobs.own_modes(run, ["software"])]
    command = [program, "--sync", ",".join(syncs), "--sizes", jobs.sizes_argument(sizes)]
    return {name: partial(measure, run, name, kind, command, ranks, wall and name.startswith("Penstock"))
            for name, kind in jobs.transports(run, ranks, names).items()}


def native(run: Run) -> Dict[str, Measure]:
    """Measures libfabric's put and get without MPI; empty if the provider is not built."""
    try:
        program = str(run.tools.program("rma_bench"))
    except Absent as error:
        run.lacks(f"without MPI: {error}")
        return {}
    modes = ",".join(run.settings.modes or ("software",))
    return {"without MPI": partial(jobs.figures_of, run, [program, "--rounds", "1", "--mode", modes])}


def run(run: Run) -> None:
    sizes = run.settings.sizes_or(SIZES, QUICK_SIZES)
    for ranks in run.settings.procs_or([2, 4], [2]):
        if ranks % 2:
            run.lacks(f"{ranks} ranks: pairs need an even number")
            continue
        measurements: Dict[str, Measure] = {}
        try:
            measurements = with_mpi(run, ranks, sizes)
        except Absent as error:
            run.lacks(f"with MPI: {error}")
        if ranks == 2 and jobs.enough_cores(2):
            measurements = {**measurements, **native(run)}
        if not jobs.enough_cores(ranks):
            run.lacks(f"{jobs.crowd(ranks)}: CPU time, messages and bytes only, no times")
        run.rounds(measurements, 3 if jobs.enough_cores(ranks) else 1, quick_rounds=1, baselines=jobs.BASELINES)
    for op in ("put", "get"):
        for test, metric in TESTS.items():
            run.plot(Plot(f"rma-{op}-{test}", f"{op.capitalize()}, {test}, by post, start, complete, wait (cMPI, Figures 5 and 6)",
                          {"op": f"{op} {test}", "metric": metric, "group": BY["pscw"]}, unit=metric))


EXPERIMENT = Experiment(
    "rma", "One-sided operations", "Put and Get between pairs of ranks, half origins and half targets, by PSCW, fence, lock "
    "and flush, and by libfabric alone; beside them a raw copy past the cache into the window.", source="cMPI, Figures 5 and 6",
    emulated="Two emulated hosts are processes of one; windows lie in its memory as in a pool.", run=run, order=40,
    needs="MPICH, two cores; without MPICH what needs no MPI")
