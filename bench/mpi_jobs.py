"""Shared by the benchmarks of MPI programs: transports, interleaved rounds, medians, tables.

Each transport runs the same program in turn, round after round, so that what disturbs the machine
disturbs all alike. A measurement is a number under a key, a tuple such as ("latency", 8).
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TCP, OWN_SHM, LIBFABRIC_SHM = "TCP", "MPICH's own shared memory", "libfabric shm"
MODES = ("software", "hardware")
OWN_VARIABLES = ("FI_", "MPIR_", "MPICH_", "PENSTOCK_", "UCX_")


def penstock(mode):
    return f"Penstock {mode}"


SOFTWARE, HARDWARE = map(penstock, MODES)


def arguments(description, rounds, sizes=None):
    """A parser with the options that all have."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    build = Path(os.environ.get("BUILD", "build"))
    parser.add_argument("--penstock", default=str(ROOT / build / "bin/penstock"))
    parser.add_argument("--mpiexec", default=str(ROOT / ".venv/bin/mpiexec"),
                        help="MPICH's, with mpicc beside it (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one measurement")
    parser.add_argument("--json", help="also write all figures to this file")
    if sizes:
        parser.add_argument("--sizes", type=int, nargs="+", default=sizes, help="bytes")
    return parser


@contextlib.contextmanager
def compiled(options, source):
    """The program, built by the mpicc beside mpiexec; it goes away afterwards."""
    source = ROOT / source
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        program = Path(folder) / source.stem
        mpicc = Path(options.mpiexec).parent / "mpicc"
        for needed, fix in ((mpicc, "ci/install.sh run"), (Path(options.penstock), "make build")):
            if not needed.exists():
                sys.exit(f"{needed} is absent: {fix}")
        subprocess.run([str(mpicc), "-O2", str(source), "-o", str(program)], check=True)
        yield str(program)


def transports(options, ranks, names):
    """name -> (environment, launcher)"""
    netmod = {"MPIR_CVAR_CH4_NETMOD": "ofi"}
    bound = ranks <= usable_cores()  # else they would wait for each other's time slices
    mpich = [options.mpiexec, *(["-bind-to", "core"] if bound else []), "-n", str(ranks)]
    run = [options.penstock, "run", "-n", str(ranks), "--nodes", "2", *(["--bind"] if bound else []),
           "--mpiexec", options.mpiexec, "--mode"]
    known = {
        TCP: ({**netmod, "FI_PROVIDER": "tcp", "MPIR_CVAR_NOLOCAL": "1"}, mpich),
        OWN_SHM: ({**netmod, "FI_PROVIDER": "tcp"}, mpich),
        LIBFABRIC_SHM: ({**netmod, "FI_PROVIDER": "shm", "MPIR_CVAR_NOLOCAL": "1"}, mpich),
        **{penstock(mode): ({}, run + [mode, "--"]) for mode in MODES},
    }
    return {name: known[name] for name in names}


def output_of(options, name, transport, command):
    """The lines that the program prints over this transport, without remarks."""
    environment, launcher = transport
    clean = {k: v for k, v in os.environ.items() if not k.startswith(OWN_VARIABLES)}
    job = subprocess.Popen(launcher + command, env={**clean, **environment}, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = job.communicate(timeout=options.timeout)
    except BaseException:
        job.terminate()  # the launcher ends its ranks
        job.communicate()
        raise
    if job.returncode != 0:
        raise RuntimeError(f"{name} failed ({job.returncode}):\n{out}{err}")
    return [line for line in out.splitlines() if line.strip() and not line.startswith("#")]


def interleaved(options, measurements):
    """{name: {key: [value of each round]}} of {name: function that gives {key: value}}"""
    results = {name: {} for name in measurements}
    names = list(measurements)
    for round_ in range(options.rounds):
        shift = round_ % len(names)
        for name in names[shift:] + names[:shift]:
            for key, value in measurements[name]().items():
                results[name].setdefault(key, []).append(value)
        if sys.stderr.isatty():
            print(f"\rround {round_ + 1} of {options.rounds}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("", file=sys.stderr)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({name: {" ".join(map(str, key)): values for key, values in figures.items()}
                       for name, figures in results.items()}, file, indent=1)
    return results


def medians(results):
    return {name: {key: statistics.median(values) for key, values in figures.items()}
            for name, figures in results.items()}


def usable_cores():
    return len(os.sched_getaffinity(0))


def say_how(options, ranks):
    bound = "each bound to a core" if ranks <= usable_cores() else "not bound"
    print(f"{ranks} ranks, {bound}; medians of {options.rounds} interleaved rounds")
    if ranks > usable_cores():
        print(f"only {usable_cores()} cores are usable: these figures show the scheduler, not the "
              "transports")


def size_name(size):
    for unit, suffix in ((1 << 20, "MB"), (1 << 10, "KB")):
        if size >= unit:
            return f"{size // unit} {suffix}"
    return f"{size} B"


def print_table(title, columns, rows):
    """Columns by their names; rows of a name and as many numbers with their format."""
    print(f"\n{title}")
    print(f"  {'':<38}" + "".join(f"{column:>12}" for column in columns))
    for name, values, form in rows:
        print(f"  {name:<38}" + "".join(f"{form.format(value):>12}" for value in values), flush=True)


def compare(title, figures, keys, columns, bases, less_is_better, form="{:.2f}"):
    """A table of these keys; for each base one of how many times better than the others it is."""
    def times_better(base, name, key):
        own, other = figures[base][key], figures[name][key]
        return other / own if less_is_better else own / other

    better = "less is better" if less_is_better else "more is better"
    print_table(f"{title} ({better})", columns,
                [(name, [values[key] for key in keys], form) for name, values in figures.items()])
    for base in bases:
        print_table(f"{title}: how many times better {base} is", columns,
                    [(name, [times_better(base, name, key) for key in keys], "{:.2f}")
                     for name in figures if name not in bases])
