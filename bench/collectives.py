#!/usr/bin/env python3
"""Collectives over each transport, and through the pool, in turn, round after round.

    bench/collectives.py --ops allreduce bcast --sizes 8 65536 --ranks 2

Beside them stands the raw limit of the same run: up to 56 bytes the hand-over of a line, above it two passes
over the memory. Penstock over messages is the same MPI with PENSTOCK_COLL=none. With more ranks than cores
the figures are of the scheduler: no ratios are printed then.

    bench/collectives.py --usage --ranks 4 8 16

prints what a call takes of a rank instead, for any number of ranks: microseconds of CPU, also those in which it
looks for what others have not done yet; bytes by sockets, as the kernel counts them; and what it writes to the pool
and reads there, with the serialized device accesses, from the schedules (bench/collective_counts).
"""

import subprocess
import sys
from functools import partial
from pathlib import Path

import mpi_jobs

SIZES = [8, 1024, 4096, 16384, 65536, 1048576]
OPS = ["barrier", "bcast", "reduce", "allreduce", "allgather", "alltoall", "reduce_scatter"]
RAW = "raw limit"
MESSAGES = "Penstock software, by messages"


def measure(options, program, name, transport, raw):
    command = [program, "--op", ",".join(options.ops + (["raw"] if raw else [])), "--sizes",
               ",".join(map(str, options.sizes)), "--validate"]
    figures = {}
    for line in mpi_jobs.output_of(options, name, transport, command):
        op, size, microseconds = line.split()
        figures[op, int(size)] = float(microseconds)
    return figures


def print_one(options, figures, op, bases):
    sizes = options.sizes[:1] if op == "barrier" else options.sizes
    rows = {name: {(size,): values[op, size] for size in sizes} for name, values in figures.items()}
    raw = figures[mpi_jobs.OWN_SHM]
    if ("raw", sizes[0]) in raw:
        rows[RAW] = {(size,): raw["raw", size] for size in sizes}
    mpi_jobs.compare(f"{op}: microseconds", rows, [(size,) for size in sizes],
                     ["" if op == "barrier" else mpi_jobs.size_name(size) for size in sizes], bases, True)


def usage(options, program, name, transport):
    command = [program, "--usage", "--validate", "--op", ",".join(options.ops), "--sizes",
               ",".join(map(str, options.sizes))]
    rows = {}
    for line in mpi_jobs.output_of(options, name, transport, command):
        op, size, *numbers = line.split()
        for what, number in zip(("cpu", "largest", "sent", "received"), numbers):
            rows[op, int(size), what] = float(number)
    return rows


NAMES = {"broadcast": "bcast"}


def counts(options, ranks):
    """(operation, bytes) -> form, bytes written, read, words, accesses; of the rank that does most."""
    program = Path(options.penstock).parent / "collective_counts"
    if not program.exists():
        sys.exit(f"{program} is absent: make test, or cmake --build build --target collective_counts")
    done = subprocess.run([program, "--ranks", str(ranks), "--sizes", ",".join(map(str, options.sizes))],
                          capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    return {(NAMES.get(row[0], row[0]), int(row[1])): [row[2], *map(int, row[3:])] for row in rows}


def print_usage(options, program, ranks):
    kinds = transports_of(options, ranks, [mpi_jobs.TCP, mpi_jobs.SOFTWARE])
    figures = mpi_jobs.medians(mpi_jobs.interleaved(
        options, {name: partial(usage, options, program, name, kind) for name, kind in kinds.items()}))
    found = counts(options, ranks)
    columns = ["CPU: TCP", "messages", "pool", "TCP sent", "received", "written", "read", "words", "accesses"]
    print(f"\n{ranks} ranks: of a rank and a call: microseconds of CPU (mean of ranks, median of {options.rounds} "
          "rounds); bytes by sockets; bytes of the pool, words, serialized accesses")
    print(f"  {'':<38}" + "".join(f"{column:>12}" for column in columns))
    for op in options.ops:
        for size in options.sizes[:1] if op == "barrier" else options.sizes:
            form, *pool = found.get((op, size)) or found[op, 8]
            cpu = [figures[name][op, size, "cpu"] for name in (mpi_jobs.TCP, MESSAGES, mpi_jobs.SOFTWARE)]
            sockets = [figures[mpi_jobs.TCP][op, size, what] for what in ("sent", "received")]
            name = f"{op} {'' if op == 'barrier' else mpi_jobs.size_name(size)}, {form}"
            print(f"  {name:<38}" + "".join(f"{value:>12.1f}" for value in cpu) +
                  "".join(f"{value:>12.0f}" for value in sockets + pool), flush=True)


def transports_of(options, ranks, wanted):
    kinds = mpi_jobs.transports(options, ranks, wanted)
    environment, launcher = kinds[mpi_jobs.SOFTWARE]
    kinds[MESSAGES] = ({**environment, "PENSTOCK_COLL": "none"}, launcher)
    return kinds


def main():
    parser = mpi_jobs.arguments(__doc__, rounds=5, sizes=SIZES)
    parser.add_argument("--ops", nargs="+", choices=OPS, default=OPS)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2])
    parser.add_argument("--usage", action="store_true", help="CPU, bytes and device accesses in place of times")
    options = parser.parse_args()
    with mpi_jobs.compiled(options, "bench/mpi/collectives.c") as program:
        for ranks in options.ranks:
            (print_usage if options.usage else print_times)(options, program, ranks)
    return 0


def print_times(options, program, ranks):
    wanted = [mpi_jobs.TCP, mpi_jobs.OWN_SHM, mpi_jobs.LIBFABRIC_SHM, mpi_jobs.SOFTWARE, mpi_jobs.HARDWARE]
    mpi_jobs.say_how(options, ranks)
    kinds = transports_of(options, ranks, wanted)
    enough = ranks <= mpi_jobs.usable_cores()
    figures = mpi_jobs.medians(mpi_jobs.interleaved(
        options, {name: partial(measure, options, program, name, kind, enough and name == mpi_jobs.OWN_SHM)
                  for name, kind in kinds.items()}))
    for op in options.ops:
        print_one(options, figures, op, [mpi_jobs.SOFTWARE, mpi_jobs.HARDWARE] if enough else [])


if __name__ == "__main__":
    sys.exit(main())
