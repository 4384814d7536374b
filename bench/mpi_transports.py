#!/usr/bin/env python3
"""Latency and bandwidth of MPICH over TCP, its own shared memory, libfabric's shm and Penstock.

All are measured in this run, in turn, round after round, so that what disturbs the machine disturbs
all alike; the medians of the rounds are printed, with ratios to Penstock in software mode.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

SIZES = [8, 4096, 65536, 1048576]
SOFTWARE, HARDWARE = "Penstock software", "Penstock hardware"
OWN_VARIABLES = ("FI_", "MPIR_", "MPICH_", "PENSTOCK_", "UCX_")


def size_name(size):
    for unit, suffix in ((1 << 20, "MB"), (1 << 10, "KB")):
        if size >= unit:
            return f"{size // unit} {suffix}"
    return f"{size} B"


def transports(penstock, mpiexec):
    """name -> (environment, launcher)"""
    netmod = {"MPIR_CVAR_CH4_NETMOD": "ofi"}
    mpich = [mpiexec, "-bind-to", "core", "-n", "2"]
    run = [penstock, "run", "-n", "2", "--nodes", "2", "--bind", "--mpiexec", mpiexec, "--mode"]
    return {
        "TCP": ({**netmod, "FI_PROVIDER": "tcp", "MPIR_CVAR_NOLOCAL": "1"}, mpich),
        "MPICH's own shared memory": ({**netmod, "FI_PROVIDER": "tcp"}, mpich),
        "libfabric shm": ({**netmod, "FI_PROVIDER": "shm", "MPIR_CVAR_NOLOCAL": "1"}, mpich),
        SOFTWARE: ({}, run + ["software", "--"]),
        HARDWARE: ({}, run + ["hardware", "--"]),
    }


def measure(name, environment, launcher, pingpong, sizes, timeout):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(OWN_VARIABLES)}
    command = launcher + [pingpong] + [str(size) for size in sizes]
    done = subprocess.run(command, env={**clean, **environment}, capture_output=True, text=True,
                          timeout=timeout)
    if done.returncode != 0:
        raise RuntimeError(f"{name} failed ({done.returncode}):\n{done.stdout}{done.stderr}")
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()]
    return {int(size): (float(latency), float(bandwidth)) for size, latency, bandwidth in rows}


def interleaved(options):
    """{name: {size: [(latency, bandwidth), ...]}}"""
    kinds = transports(options.penstock, options.mpiexec)
    results = {name: {size: [] for size in options.sizes} for name in kinds}
    names = list(kinds)
    for round_ in range(options.rounds):
        shift = round_ % len(names)
        for name in names[shift:] + names[:shift]:
            figures = measure(name, *kinds[name], options.pingpong, options.sizes, options.timeout)
            for size in options.sizes:
                results[name][size].append(figures[size])
        if sys.stderr.isatty():
            print(f"\rround {round_ + 1} of {options.rounds}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("", file=sys.stderr)
    return results


def medians(results):
    return {name: {size: tuple(statistics.median(column) for column in zip(*figures))
                   for size, figures in sizes.items()} for name, sizes in results.items()}


def print_table(title, sizes, rows):
    print(f"\n{title}")
    print(f"  {'':<38}" + "".join(f"{size_name(size):>12}" for size in sizes))
    for name, values in rows:
        print(f"  {name:<38}" + "".join(f"{value:>12}" for value in values))


def print_results(figures, sizes):
    def column(name, which, form):
        return [form.format(figures[name][size][which]) for size in sizes]

    def ratio(name, which):
        return [f"{figures[name][s][which] / figures[SOFTWARE][s][which]:.2f}" for s in sizes]

    def inverse(name, which):
        return [f"{figures[SOFTWARE][s][which] / figures[name][s][which]:.2f}" for s in sizes]

    others = [name for name in figures if name != SOFTWARE]
    print_table("latency, one way, microseconds (less is better)", sizes,
                [(name, column(name, 0, "{:.2f}")) for name in figures])
    print_table(f"latency of the others over {SOFTWARE}'s (above 1: Penstock is faster)", sizes,
                [(name, ratio(name, 0)) for name in others])
    print_table("bandwidth, MB/s (more is better)", sizes,
                [(name, column(name, 1, "{:.1f}")) for name in figures])
    print_table(f"{SOFTWARE}'s bandwidth over the others' (above 1: Penstock is faster)", sizes,
                [(name, inverse(name, 1)) for name in others])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--penstock", required=True)
    parser.add_argument("--mpiexec", required=True)
    parser.add_argument("--pingpong", required=True, help="examples/pingpong.c, compiled")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one measurement")
    parser.add_argument("--json", help="also write all figures to this file")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(f"2 ranks, each bound to a core of its own; medians of {options.rounds} interleaved rounds")
    if cores < 2:
        print(f"only {cores} core is usable: these figures show the scheduler, not the transports")
    results = interleaved(options)
    print_results(medians(results), options.sizes)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
