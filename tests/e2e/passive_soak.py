#!/usr/bin/env python3
"""Repeats random passive-target programs (programs/passive.py) with other seeds, ranks and nodes.

    tests/e2e/passive_soak.py --minutes 60                      # simulated mode, every MPI that is there
    tests/e2e/passive_soak.py --seed 7 --jobs 1                 # the job that failed with this seed, again
"""

import argparse
import os
import random
import subprocess
import sys
import time

from support import MPIEXEC, OTHER_VENVS, PENSTOCK, PROGRAMS, PYTHON, clean_environment

TIMEOUT_S = 120


def launchers():
    """mpiexec and python of each installed MPI, by name."""
    found = {"mpich": (MPIEXEC, PYTHON)}
    for name, folder in OTHER_VENVS.items():
        if os.access(folder / "bin/mpiexec", os.X_OK):
            found[name] = str(folder / "bin/mpiexec"), str(folder / "bin/python")
    return found


def job_of(seed, mode, mpis, windows):
    draw = random.Random(seed)
    ranks = draw.randint(2, 4)
    nodes = draw.randint(2, ranks)
    mpi = draw.choice(sorted(mpis))
    mpiexec, python = mpis[mpi]
    command = [PENSTOCK, "run", "--mpiexec", mpiexec, "--mode", mode, "-n", ranks, "--nodes", nodes, "--", python,
               PROGRAMS / "passive.py", "--seed", seed, "--windows", windows]
    return f"seed {seed}: {ranks} ranks on {nodes} nodes, {mpi}", [str(word) for word in command]


def run(command):
    """Runs a job; returns its error, or ""."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=clean_environment())
    except subprocess.TimeoutExpired as hung:
        return f"no end after {TIMEOUT_S} s\n{(hung.stderr or b'').decode(errors='replace')}"
    ok = done.returncode == 0 and "passive: ok" in done.stdout
    return "" if ok else f"status {done.returncode}\n{done.stdout}{done.stderr}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--jobs", type=int, help="so many instead")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30), help="of the first job")
    parser.add_argument("--mode", default="simulated")
    parser.add_argument("--mpi", choices=sorted(launchers()), help="this one only")
    parser.add_argument("--windows", type=int, default=20, help="of a job")
    options = parser.parse_args()
    mpis = {name: at for name, at in launchers().items() if options.mpi in (None, name)}
    end = time.monotonic() + 60 * options.minutes
    jobs = failed = 0
    while jobs < options.jobs if options.jobs else time.monotonic() < end:
        name, command = job_of(options.seed + jobs, options.mode, mpis, options.windows)
        jobs += 1
        if wrong := run(command):
            failed += 1
            print(f"{name}: {wrong}", flush=True)
    print(f"passive soak: {jobs - failed} of {jobs} jobs ok, {options.mode} mode, seeds from {options.seed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
