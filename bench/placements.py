#!/usr/bin/env python3
"""Two-sided messages between buffers in host memory (H) and in memory from MPI_Alloc_mem (D).

    bench/placements.py latency        or bandwidth, or bibw (both ways at once)

Over Penstock the four placements HH, HD, DH and DD (the first letter is of the buffer that is sent), and HH
over TCP, in turn, round after round; medians, how many times better than TCP each is, and than HH.
"""

import sys
from functools import partial

import mpi_jobs

SIZES = [8, 4096, 65536, 1048576]
PLACES = ["HH", "HD", "DH", "DD"]
TESTS = {"latency": ("latency, one way, microseconds", True, "{:.2f}"),
         "bandwidth": ("bandwidth, MB/s", False, "{:.1f}"),
         "bibw": ("bandwidth of both ways together, MB/s", False, "{:.1f}")}


def measure(options, program, name, transport, place):
    command = [program, options.test, "--place", place, "--sizes", ",".join(map(str, options.sizes))]
    rows = [line.split() for line in mpi_jobs.output_of(options, name, transport, command)]
    return {(options.test, int(size)): float(value) for size, value in rows}


def print_mode(options, mode, figures):
    """Figures of TCP and of the placements in one mode."""
    title, less_is_better, form = TESTS[options.test]
    keys = [(options.test, size) for size in options.sizes]
    columns = [mpi_jobs.size_name(size) for size in options.sizes]
    names = {place: f"{mpi_jobs.penstock(mode)}, {place}" for place in PLACES}
    tcp = f"{mpi_jobs.TCP}, HH"

    def times_better(name, than):
        pairs = [(figures[name][key], figures[than][key]) for key in keys]
        return [other / own if less_is_better else own / other for own, other in pairs]

    mpi_jobs.print_table(title, columns, [(name, [figures[name][key] for key in keys], form)
                                          for name in [tcp, *names.values()]])
    mpi_jobs.print_table(f"{title}: how many times better than {tcp}", columns,
                         [(name, times_better(name, tcp), "{:.2f}") for name in names.values()])
    mpi_jobs.print_table(f"{title}: how many times better than {names['HH']}", columns,
                         [(name, times_better(name, names["HH"]), "{:.2f}")
                          for place, name in names.items() if place != "HH"])


def main():
    parser = mpi_jobs.arguments(__doc__, rounds=7, sizes=SIZES)
    parser.add_argument("test", choices=TESTS)
    parser.add_argument("--mode", nargs="+", choices=mpi_jobs.MODES, default=["software"])
    options = parser.parse_args()
    mpi_jobs.say_how(options, 2)
    with mpi_jobs.compiled(options, "bench/mpi/placement.c") as program:
        measurements = {}
        wanted = [mpi_jobs.TCP] + [mpi_jobs.penstock(mode) for mode in options.mode]
        for name, kind in mpi_jobs.transports(options, 2, wanted).items():
            for place in ["HH"] if name == mpi_jobs.TCP else PLACES:
                label = f"{name}, {place}"
                measurements[label] = partial(measure, options, program, label, kind, place)
        figures = mpi_jobs.medians(mpi_jobs.interleaved(options, measurements))
    for mode in options.mode:
        print_mode(options, mode, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
