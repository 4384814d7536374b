#!/usr/bin/env python3
"""A step of examples/halo.c over TCP, MPICH's own shared memory and Penstock.

In turn, round after round; medians of a whole step and of the exchange in it, and how many times faster
Penstock is.
"""

import re
import sys
from functools import partial

import mpi_jobs

SIDES = [64, 256, 1024]
NAMES = [mpi_jobs.TCP, mpi_jobs.OWN_SHM, mpi_jobs.SOFTWARE, mpi_jobs.HARDWARE]
FIGURES = re.compile(r"halo: ok: .* ([\d.]+) us a step, ([\d.]+) of them in the exchange")


def measure(options, program, name, transport):
    figures = {}
    for side in options.sides:
        command = [program, str(side), str(side), str(options.steps)]
        line = "\n".join(mpi_jobs.output_of(options, name, transport, command))
        step, exchange = FIGURES.search(line).groups()
        figures["step", side] = float(step)
        figures["exchange", side] = float(exchange)
    return figures


def main():
    parser = mpi_jobs.arguments(__doc__, rounds=5)
    parser.add_argument("--sides", type=int, nargs="+", default=SIDES, help="cells of a plate's side")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=2)
    options = parser.parse_args()
    mpi_jobs.say_how(options, options.ranks)
    with mpi_jobs.compiled(options, "examples/halo.c") as program:
        kinds = mpi_jobs.transports(options, options.ranks, NAMES)
        figures = mpi_jobs.medians(mpi_jobs.interleaved(
            options, {name: partial(measure, options, program, name, kind)
                      for name, kind in kinds.items()}))
    columns = [f"{side} x {side}" for side in options.sides]
    for what, title in (("exchange", "exchange of the edges, microseconds"),
                        ("step", "a whole step, microseconds")):
        mpi_jobs.compare(title, figures, [(what, side) for side in options.sides], columns,
                         [mpi_jobs.SOFTWARE, mpi_jobs.HARDWARE], True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
