#!/usr/bin/env python3
"""Kills examples/checkpoint/heat.py at random, lets other numbers of ranks go on, and compares the result.

    examples/checkpoint/kill_and_go_on.py --pool /var/tmp/plate --size 64M --kills 5

All ranks are killed by SIGKILL. At the end the plate must equal, bit by bit, that of an undisturbed run. Prints where
each job went on, and how long a checkpoint takes compared with a file on tmpfs and on disk.
"""

import argparse
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import penstock.pool

HEAT = str(Path(__file__).with_name("heat.py"))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pool", required=True, help="SPEC: is made and removed where there is none")
    parser.add_argument("--size", type=int, default=64 << 20, help="bytes of the pool")
    parser.add_argument("--ranks", type=int, nargs="+", default=[3, 2, 4], help="of one job after the other")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--points", type=int, default=256)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--compare", nargs="*", default=["/dev/shm", tempfile.gettempdir()])
    parser.add_argument("--launcher", default="penstock run -n {ranks} --", help="with {ranks} in it")
    return parser.parse_args()


def command(options, ranks, name, *more):
    return [*shlex.split(options.launcher.format(ranks=ranks)), sys.executable, HEAT, "--pool", options.pool, "--name",
            name, "--points", str(options.points), "--steps", str(options.steps), "--every", str(options.every), *more]


def run(options, ranks, name, *more):
    """Runs the program to its end."""
    subprocess.run(command(options, ranks, name, *more), check=True, timeout=300)


def version(pool):
    """The step of the committed checkpoint: 0 before there is one."""
    try:
        with pool.checkpoint("killed") as saved:
            return saved.info().version
    except LookupError:
        return 0


def run_and_kill(options, ranks, pool, draw):
    """Waits until more checkpoints were committed, and a moment longer. False: the job ended
    before."""
    until = version(pool) + draw.randint(1, 3)
    with tempfile.TemporaryDirectory() as pids:
        job = subprocess.Popen(command(options, ranks, "killed", "--pids", pids), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
        while job.poll() is None and version(pool) < until:
            time.sleep(0.002)
        time.sleep(draw.uniform(0, 0.02))
        killed = job.poll() is None
        for file in Path(pids).iterdir():
            try:
                os.kill(int(file.read_text()), signal.SIGKILL)
            except (ProcessLookupError, ValueError):
                pass
        job.wait(timeout=120)
    return killed


def result(pool, name, options):
    with pool.checkpoint(name) as saved:
        info = saved.info()
        if info.tag != options.steps:
            sys.exit(f"checkpoint: {name} ends at step {info.tag}, not at {options.steps}")
        return saved.read((options.points, options.points), "float64")


def make_pool(options):
    """Makes the pool; returns False if it exists already."""
    try:
        penstock.pool.create(options.pool, options.size)
        return True
    except FileExistsError:
        return False


def main():
    options = arguments()
    draw = random.Random(options.seed)
    made = make_pool(options)
    try:
        run(options, options.ranks[0], "undisturbed")
        with penstock.pool.attach(options.pool) as pool:
            kills = 0
            for number in range(options.kills):
                ranks = options.ranks[number % len(options.ranks)]
                kills += run_and_kill(options, ranks, pool, draw)
                with pool.checkpoint("killed") as saved:
                    info = saved.info()
                print(f"checkpoint: {ranks} ranks were killed; version {info.version} of step {info.tag} is valid",
                      flush=True)
            run(options, options.ranks[options.kills % len(options.ranks)], "killed", "--compare", *options.compare)
            same = result(pool, "killed", options).tobytes() == result(pool, "undisturbed", options).tobytes()
        print(f"checkpoint: {'ok' if same else 'WRONG'}: {kills} jobs were killed, and the plate is "
              f"{'that' if same else 'not that'} of an undisturbed run bit by bit", flush=True)
        return 0 if same else 1
    finally:
        if made:
            penstock.pool.remove(options.pool, force=True)


if __name__ == "__main__":
    sys.exit(main())
