#!/usr/bin/env python3
"""Repeats jobs after killed jobs on one pool, with other seeds, ranks, nodes and victims.

A job of programs/passive.py is killed at some time: one rank or all of them. The next job, with other ranks on other
nodes, must run to its end and find its own puts. Stores of dead ranks may still be in their hosts' caches: simulated
mode keeps these caches, and writes lines back at random times.

    tests/e2e/killed_soak.py --minutes 60
    tests/e2e/killed_soak.py --rounds 3 --seed 7
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time

from passive_soak import TIMEOUT_S, launchers, run
from support import PENSTOCK, PROGRAMS, clean_environment

WINDOWS = 6


def penstock(*arguments):
    return subprocess.run([PENSTOCK, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT_S,
                          env=clean_environment())


def command_of(draw, spec, mpis, windows):
    ranks = draw.randint(2, 5)
    nodes = draw.randint(2, ranks)
    mpi = draw.choice(sorted(mpis))
    mpiexec, python = mpis[mpi]
    command = [PENSTOCK, "run", "--mpiexec", mpiexec, "--pool", spec, "-n", ranks, "--nodes", nodes, "--", python,
               PROGRAMS / "passive.py", "--seed", draw.randrange(1 << 30), "--windows", windows]
    return f"{ranks} ranks on {nodes} nodes, {mpi}", [str(word) for word in command]


def living(spec):
    processes = json.loads(penstock("ps", spec, "--json").stdout)
    return [record["pid"] for record in processes if record["alive"] and record["rank"] >= 0]


def killed(draw, spec, command):
    """Runs the job for a while, then kills one rank or all. Returns the error, or ""."""
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=clean_environment())
    pids, end = [], time.monotonic() + 20
    while not pids and job.poll() is None and time.monotonic() < end:
        pids = living(spec)
    time.sleep(draw.random() ** 2 * 4)
    for pid in pids if draw.random() < 0.5 else draw.sample(pids, min(1, len(pids))):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has ended
    try:
        job.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        job.kill()
        return f"no end {TIMEOUT_S} s after a kill"
    return "" if job.returncode != 0 else "it was over before it was killed"


def play_round(seed, spec, mpis):
    """Kills one or two jobs, then runs one that must succeed. Returns the error, or ""."""
    draw = random.Random(seed)
    said = []
    for _ in range(draw.randint(1, 2)):
        name, command = command_of(draw, spec, mpis, 1000)
        said.append(f"killed: {name}")
        if wrong := killed(draw, spec, command):
            return "; ".join([*said, wrong])
    if draw.random() < 0.3:
        said.append("gc")
        penstock("pool", "gc", spec, "--yes")
    name, command = command_of(draw, spec, mpis, WINDOWS)
    wrong = run(command)
    return "; ".join([*said, f"then {name}: {wrong}"]) if wrong else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rounds", type=int, help="so many instead")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30), help="of the first round")
    parser.add_argument("--mode", default="simulated")
    parser.add_argument("--mpi", choices=sorted(launchers()), help="this one only")
    options = parser.parse_args()
    mpis = {name: at for name, at in launchers().items() if options.mpi in (None, name)}
    spec = f"shm:killed-soak-{os.getpid()}"
    end = time.monotonic() + 60 * options.minutes
    rounds = failed = 0
    made = penstock("pool", "create", spec, "--size", "128M", "--mode", options.mode)
    if made.returncode != 0:
        sys.exit(made.stderr)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("killed soak: ended by a signal"))  # so that the pool is removed
    try:
        while rounds < options.rounds if options.rounds else time.monotonic() < end:
            seed = options.seed + rounds
            rounds += 1
            if wrong := play_round(seed, spec, mpis):
                failed += 1
                print(f"seed {seed}: {wrong}", flush=True)
    finally:
        print(penstock("pool", "info", spec).stdout)
        penstock("pool", "rm", "--force", spec)
    print(f"killed soak: {rounds - failed} of {rounds} rounds ok, {options.mode} mode, seeds from {options.seed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
