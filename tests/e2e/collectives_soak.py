#!/usr/bin/env python3
"""Repeats random collectives and messages (programs/collectives.py) with other seeds, ranks, nodes, modes and MPIs.

    tests/e2e/collectives_soak.py --minutes 60
    tests/e2e/collectives_soak.py --seed 7 --jobs 1             # the job that failed with this seed, again
"""

import argparse
import random
import subprocess
import sys
import time

from passive_soak import launchers
from support import PENSTOCK, PROGRAMS, clean_environment

TIMEOUT_S = 300
MODES = ["software", "software", "hardware", "simulated"]  # the first is what runs between hosts


def job_of(seed, mpis, calls, mode):
    """The job's name, environment and command, all derived from the seed."""
    draw = random.Random(seed)
    ranks = draw.randint(2, 5)
    nodes = draw.randint(2, ranks)
    mode = mode or draw.choice(MODES)
    check = draw.random() < 0.2
    mpi = draw.choice(sorted(mpis))
    mpiexec, python = mpis[mpi]
    command = [PENSTOCK, "run", "--mpiexec", mpiexec, "--mode", mode, "-n", ranks, "--nodes", nodes, "--", python,
               "-m", "mpi4py", PROGRAMS / "collectives.py", seed, calls]
    environment = clean_environment(**({"PENSTOCK_COLL_CHECK": "1"} if check else {}))
    name = f"{ranks} ranks on {nodes} nodes, {mode}, {mpi}{', calls compared' if check else ''}"
    return name, environment, [str(word) for word in command]


def run(environment, command, calls):
    """Runs a job; returns its error, or ""."""
    ranks = int(command[command.index("-n") + 1])
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment)
    except subprocess.TimeoutExpired as hung:
        return f"no end after {TIMEOUT_S} s\n{(hung.stderr or b'').decode(errors='replace')}"
    if done.returncode == 0 and done.stdout.count(f"collectives: ok: {calls} calls") == ranks:
        return ""
    return f"status {done.returncode}\n{done.stdout}{done.stderr}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--jobs", type=int, help="so many instead")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30), help="of the first job")
    parser.add_argument("--mode", choices=sorted(set(MODES)), help="this one only")
    parser.add_argument("--mpi", choices=sorted(launchers()), help="this one only")
    parser.add_argument("--calls", type=int, default=300, help="of a job")
    options = parser.parse_args()
    mpis = {name: at for name, at in launchers().items() if options.mpi in (None, name)}
    end = time.monotonic() + 60 * options.minutes
    jobs = failed = 0
    while jobs < options.jobs if options.jobs else time.monotonic() < end:
        seed = options.seed + jobs
        name, environment, command = job_of(seed, mpis, options.calls, options.mode)
        jobs += 1
        if wrong := run(environment, command, options.calls):
            failed += 1
            chosen = [f"--{key} {value}" for key, value in (("mode", options.mode), ("mpi", options.mpi)) if value]
            again = " ".join(["tests/e2e/collectives_soak.py --jobs 1 --seed", str(seed), "--calls", str(options.calls),
                              *chosen])
            print(f"{name}: {wrong}\nagain: {again}", flush=True)
    print(f"collectives soak: {jobs - failed} of {jobs} jobs ok, seeds from {options.seed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
