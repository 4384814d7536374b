#!/usr/bin/env python3
"""Collectives over each transport, and through the pool, in turn, round after round.

    bench/collectives.py --ops allreduce bcast --sizes 8 65536 --ranks 2

Beside them stands the raw limit of the same run: up to 56 bytes the hand-over of a line, above it two passes
over the memory. Penstock over messages is the same MPI with PENSTOCK_COLL=none. With more ranks than cores
the figures are of the scheduler: no ratios are printed then.
"""

import sys
from functools import partial

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


def main():
    parser = mpi_jobs.arguments(__doc__, rounds=5, sizes=SIZES)
    parser.add_argument("--ops", nargs="+", choices=OPS, default=OPS)
    parser.add_argument("--ranks", type=int, default=2)
    options = parser.parse_args()
    wanted = [mpi_jobs.TCP, mpi_jobs.OWN_SHM, mpi_jobs.LIBFABRIC_SHM, mpi_jobs.SOFTWARE, mpi_jobs.HARDWARE]
    with mpi_jobs.compiled(options, "bench/mpi/collectives.c") as program:
        mpi_jobs.say_how(options, options.ranks)
        kinds = mpi_jobs.transports(options, options.ranks, wanted)
        environment, launcher = kinds[mpi_jobs.SOFTWARE]
        kinds[MESSAGES] = ({**environment, "PENSTOCK_COLL": "none"}, launcher)
        enough = options.ranks <= mpi_jobs.usable_cores()
        figures = mpi_jobs.medians(mpi_jobs.interleaved(
            options, {name: partial(measure, options, program, name, kind, enough and name == mpi_jobs.OWN_SHM)
                      for name, kind in kinds.items()}))
        for op in options.ops:
            print_one(options, figures, op, [mpi_jobs.SOFTWARE, mpi_jobs.HARDWARE] if enough else [])
    return 0


if __name__ == "__main__":
    sys.exit(main())
