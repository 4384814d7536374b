"""Many posted receives and many unexpected messages: their cost, the memory that a flood takes, and when a sender waits."""

from __future__ import annotations

from functools import partial
from typing import Dict

from penstock.bench import jobs
from penstock.bench.experiment import Experiment, Figures, Key, Run
from penstock.bench.model import Plot

COUNTS, QUICK_COUNTS = [1, 100, 10_000, 100_000], [1, 1000]
FLOOD, QUICK_FLOOD, FLOOD_BYTES = 4000, 400, [8 << 10, 32 << 10]
AWAY_BYTES = [8, 1000, 8192]
BOUND = 16 << 20
WORDS = {"posted": "receives posted", "unexpected": "messages unexpected"}


def measure(run: Run, transport: jobs.Transport, program: str) -> Figures:
    """Runs lab/bench/mpi/matching.c and returns its figures."""
    figures: Dict[Key, float] = {}
    counts = run.settings.sizes_or(COUNTS, QUICK_COUNTS)
    flood = QUICK_FLOOD if run.settings.quick else FLOOD
    command = [program, "--counts", jobs.sizes_argument(counts), "--flood", str(flood), "--bytes",
               jobs.sizes_argument(FLOOD_BYTES), "--away", jobs.sizes_argument(AWAY_BYTES)]
    for what, count, figure, *grown in jobs.lines_of(run, transport, command):
        if what in WORDS:
            figures[Key(what, "time_us", group=f"{int(count):,} {WORDS[what]}", procs=2)] = float(figure)
            continue
        if what == "calls":
            group = f"{flood:,} messages to a rank outside MPI: calls until one waits"
            figures[Key(what, "calls", int(count), group, 2)] = float(figure)
            continue
        group = f"{flood:,} messages, the one behind them first"
        figures[Key(what, "time_us", int(count), group, 2)] = float(figure)
        figures[Key(what, "memory_MB", int(count), group, 2)] = float(grown[0]) / 1e6
    return figures


def run(run: Run) -> None:
    if not jobs.enough_cores(2):
        run.lacks("two ranks need two cores")
        return
    program = str(run.tools.compiled("bench/matching.c"))
    own = jobs.own_modes(run)
    kinds = jobs.transports(run, 2, [jobs.OWN_SHM, jobs.LIBFABRIC_SHM, *own])
    for name in own:
        environment, launcher = kinds[name]
        kinds[f"{name}, bounded to 16 MiB"] = ({**environment, "PENSTOCK_UNEXPECTED_BYTES": str(BOUND)}, launcher)
    run.rounds({name: partial(measure, run, kind, program) for name, kind in kinds.items()}, 5,
               baselines=(jobs.OWN_SHM, jobs.LIBFABRIC_SHM))
    for op, words in WORDS.items():
        run.plot(Plot(f"matching-{op}", f"The last of many {words}", {"op": op}, x="series", unit="microseconds"))
    run.plot(Plot("matching-flood", "Memory of a flood that is received late", {"op": "flood", "metric": "memory_MB"},
                  logy=False, unit="MB"))


EXPERIMENT = Experiment(
    "matching", "Many receives, many messages", "A message that the last of many posted receives takes, a receive of the last of "
    "many unexpected messages, and a flood of nonblocking messages before one that is received first: time, and by what "
    "both processes grow. Nonblocking messages to a rank that is outside MPI: how many calls return before one waits for it.", source="libfabric's and MPICH's own matching", emulated="The two hosts are processes of one; the "
    "pool is its memory.", run=run, order=45, needs="MPICH, two cores")
