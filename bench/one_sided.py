#!/usr/bin/env python3
"""One-sided operations, half of the ranks origins and half targets, as the cMPI paper extends OSU's tests.

    bench/one_sided.py latency --op put get --sync pscw lock --ranks 2 4        or bandwidth

Over Penstock, TCP and MPICH's own shared memory, in turn, round after round; medians, and how many times
better Penstock is. Beside put stands a raw copy past the cache into memory of the same window: the limit.
"""

import sys
from functools import partial

import mpi_jobs

SIZES = [8, 4096, 65536, 1048576, 4194304]
OPS = ["put", "get", "accumulate", "fetch_and_op"]
SYNCS = ["pscw", "fence", "lock", "exclusive", "lock_all"]
RAW = "a raw copy past the cache"
BY = {"pscw": "post, start, complete, wait", "fence": "fence", "lock": "shared lock and unlock",
      "exclusive": "exclusive lock and unlock", "lock_all": "flush below lock_all"}


def measure(options, program, name, transport):
    ops = options.op + (["raw"] if "put" in options.op else [])
    command = [program, options.test, "--op", ",".join(ops), "--sync",
               ",".join(options.sync), "--window", options.window, "--sizes",
               ",".join(map(str, options.sizes))]
    figures = {}
    for line in mpi_jobs.output_of(options, name, transport, command):
        op, sync, size, *values = line.split()
        # of bandwidth MB/s, then operations a second; one size has no use for the former
        figures[op, sync, int(size)] = float(values[-1 if op == "fetch_and_op" else 0])
    return figures


def print_one(options, ranks, figures, op, sync):
    latency, atomic = options.test == "latency", op == "fetch_and_op"
    what = "latency, microseconds" if latency else "operations a second" if atomic else "bandwidth, MB/s"
    sizes = [8] if atomic else options.sizes
    rows = {name: {(size,): values[op, sync, size] for size in sizes}
            for name, values in figures.items()}
    bases = [mpi_jobs.penstock(mode) for mode in options.mode]
    if op == "put":
        rows[RAW] = {(size,): figures[bases[0]]["raw", "none", size] for size in sizes}
    mpi_jobs.compare(f"{op}, {BY[sync]}, {ranks} ranks: {what}", rows, [(size,) for size in sizes],
                     [mpi_jobs.size_name(size) for size in sizes], bases, latency,
                     "{:.2f}" if latency else "{:.0f}" if atomic else "{:.1f}")


def main():
    parser = mpi_jobs.arguments(__doc__, rounds=5, sizes=SIZES)
    parser.add_argument("test", choices=["latency", "bandwidth"])
    parser.add_argument("--op", nargs="+", choices=OPS, default=["put", "get"])
    parser.add_argument("--sync", nargs="+", choices=SYNCS, default=["pscw", "fence", "lock", "lock_all"])
    parser.add_argument("--window", choices=["win_allocate", "win_create", "alloc_mem"],
                        default="win_allocate", help="what memory the window is of")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2])
    parser.add_argument("--mode", nargs="+", choices=mpi_jobs.MODES, default=["software"])
    options = parser.parse_args()
    wanted = [mpi_jobs.TCP, mpi_jobs.OWN_SHM] + [mpi_jobs.penstock(mode) for mode in options.mode]
    with mpi_jobs.compiled(options, "bench/mpi/one_sided.c") as program:
        for ranks in options.ranks:
            mpi_jobs.say_how(options, ranks)
            kinds = mpi_jobs.transports(options, ranks, wanted)
            figures = mpi_jobs.medians(mpi_jobs.interleaved(
                options, {name: partial(measure, options, program, name, kind)
                          for name, kind in kinds.items()}))
            for op in options.op:
                for sync in options.sync:
                    print_one(options, ranks, figures, op, sync)
    return 0


if __name__ == "__main__":
    sys.exit(main())
