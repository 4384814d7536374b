#!/usr/bin/env python3
"""Latency and bandwidth of MPICH over TCP, its own shared memory, libfabric's shm and Penstock.

All are measured in this run, in turn, round after round; the medians of the rounds are printed, with
ratios to Penstock in software mode.
"""

import sys
from functools import partial

import mpi_jobs

SIZES = [8, 4096, 65536, 1048576]
NAMES = [mpi_jobs.TCP, mpi_jobs.OWN_SHM, mpi_jobs.LIBFABRIC_SHM, mpi_jobs.SOFTWARE, mpi_jobs.HARDWARE]


def measure(options, program, name, transport):
    command = [program] + [str(size) for size in options.sizes]
    figures = {}
    for line in mpi_jobs.output_of(options, name, transport, command):
        size, latency, bandwidth = line.split()
        figures["latency", int(size)] = float(latency)
        figures["bandwidth", int(size)] = float(bandwidth)
    return figures


def main():
    options = mpi_jobs.arguments(__doc__, rounds=7, sizes=SIZES).parse_args()
    mpi_jobs.say_how(options, 2)
    with mpi_jobs.compiled(options, "examples/pingpong.c") as program:
        kinds = mpi_jobs.transports(options, 2, NAMES)
        figures = mpi_jobs.medians(mpi_jobs.interleaved(
            options, {name: partial(measure, options, program, name, kind)
                      for name, kind in kinds.items()}))
    columns = [mpi_jobs.size_name(size) for size in options.sizes]
    for test, title, less_is_better in (("latency", "latency, one way, microseconds", True),
                                        ("bandwidth", "bandwidth, MB/s", False)):
        mpi_jobs.compare(title, figures, [(test, size) for size in options.sizes], columns,
                         [mpi_jobs.SOFTWARE, mpi_jobs.HARDWARE], less_is_better)
    return 0


if __name__ == "__main__":
    sys.exit(main())
