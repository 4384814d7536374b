#!/usr/bin/env python3
"""Runs Mantevo's miniAMR under SimGrid: compares its messages with those that `penstock model scaling` simulates, and
replays a whole run to measure its time.

Builds the program unmodified and keeps no copy. Exit status: 0 if all messages are equal, 1 otherwise, 77 if the
source or SimGrid is missing.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNAVAILABLE = 77
LONGEST_S = 3600
FACE_TAGS = ("0", "1", "2")
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
 <cluster id="c" prefix="n" suffix="" radical="0-{last}" speed="1Gf" bw="10GBps" lat="1us" loopback_bw="10GBps" loopback_lat="1us"/>
</platform>
"""
# A ball moves through the mesh, which is refined at the ball's surface. Load balancing is off: it needs sums over parts of
# the ranks, which SimGrid's traces do not distinguish from sums over all ranks.
MOVING = "--lb_opt 0 --num_refine 2 --num_objects 1 --object 2 0 -0.2 -0.2 -0.2 0.08 0.08 0.08 0.2 0.2 0.2 0 0 0".split()


def grid(ranks):
    log = ranks.bit_length() - 1
    return 1 << (log + 2) // 3, 1 << (log + 1) // 3, 1 << log // 3


def run(words, **more):
    try:
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=LONGEST_S, **more)
    except subprocess.TimeoutExpired:
        sys.exit(f"{' '.join(map(str, words))}: not done after {LONGEST_S} s: take fewer --ranks or --steps")
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def capture(program, folder, ranks, steps, more):
    """Runs the program with tracing; returns the file that lists the traces."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "platform.xml").write_text(PLATFORM.format(last=ranks - 1))
    (folder / "hosts").write_text("".join(f"n{rank}\n" for rank in range(ranks)))
    x, y, z = grid(ranks)
    run(["smpirun", "-trace-ti", "-trace-file", folder / "traces", "-np", ranks, "-platform", folder / "platform.xml", "-hostfile",
         folder / "hosts", program, "--nx", 4, "--ny", 4, "--nz", 4, "--npx", x, "--npy", y, "--npz", z, "--num_tsteps", steps,
         *more, "--cfg=smpi/host-speed:1Gf"], cwd=folder)
    return folder / "traces"


def messages(path):
    """The messages and collectives that a rank begins, without computations and waits."""
    with open(path) as file:
        words = [line.split()[1:] for line in file]
    return [tuple(each) for each in words if each and each[0] in ("irecv", "isend", "allreduce")]


def steps_of(sequence):
    """The part of a sequence from the first exchange of faces on."""
    first = next((at for at, each in enumerate(sequence) if each[0] != "allreduce" and each[2] in FACE_TAGS), len(sequence))
    return sequence[first:]


def differences(penstock, listed, folder, ranks, steps):
    """The ranks whose messages differ from the simulated ones, and the number of messages compared."""
    own = folder / "own"
    run([penstock, "model", "scaling", "--program", "miniamr", "--nodes", max(ranks // 8, 1), "--per-node", min(ranks, 8), "--traces",
         own])
    names = [folder / name for name in listed.read_text().split()]
    different, compared = [], 0
    for rank, name in enumerate(names):
        wanted = messages(own / f"rank-{rank}.txt") * steps
        found = steps_of(messages(name))[:len(wanted)]
        compared += len(wanted)
        if found != wanted or not wanted:
            different.append(rank)
    return different, compared


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", default=os.environ.get("MINIAMR", str(ROOT / ".cache/miniAMR")),
                        help="miniAMR's sources (github.com/Mantevo/miniAMR); default: MINIAMR, or .cache/miniAMR")
    parser.add_argument("--penstock", default=str(ROOT / "build/bin/penstock"))
    parser.add_argument("--ranks", type=int, nargs="*", default=[8, 16, 32, 64], help="numbers of ranks, powers of two")
    parser.add_argument("--steps", type=int, default=4, help="time steps; up to 4 are compared, before the first refinement")
    parser.add_argument("--moving", action="store_true", help="with a moving ball, around which the mesh refines: nothing is compared")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the traces in this folder, for penstock model scaling --replay")
    options = parser.parse_args(arguments)
    wrong = [ranks for ranks in options.ranks if ranks < 2 or ranks & (ranks - 1)]
    if wrong:
        parser.error(f"--ranks {wrong[0]}: powers of two from 2 on are needed")
    if options.steps < 1:
        parser.error(f"--steps {options.steps}: at least 1 is needed")
    return options


def main(arguments=None):
    options = options_of(arguments)
    sources = sorted(Path(options.source, "ref").glob("*.c"))
    if not sources:
        print(f"no sources of miniAMR in {options.source}: git clone https://github.com/Mantevo/miniAMR {ROOT}/.cache/miniAMR, or name "
              "them by --source DIR")
        return UNAVAILABLE
    if not shutil.which("smpicc"):
        print("no smpicc is on the PATH: ci/install.sh scaling, or apt install libsimgrid-dev")
        return UNAVAILABLE
    good = True
    with tempfile.TemporaryDirectory(prefix="penstock-miniamr-") as scratch:
        folder = (options.keep or Path(scratch)).resolve()
        program = Path(scratch) / "miniamr"
        run(["smpicc", "-O2", *sources, "-lm", "-o", program])
        for ranks in options.ranks:
            here = folder / f"{ranks}"
            more = ["--max_blocks", 200, *MOVING] if options.moving else ["--max_blocks", 50]
            listed = capture(program, here, ranks, options.steps, more)
            if not options.moving:
                different, compared = differences(options.penstock, listed, here, ranks, min(options.steps, 4))
                good = good and not different
                print(f"{ranks} ranks: {compared} messages and sums compared, "
                      + (f"those of ranks {different[:8]} differ" if different else "all equal"), flush=True)
            print(run([options.penstock, "model", "scaling", "--replay", listed, "--set", "table1", "--devices", 0, "--per-node",
                       min(ranks, 8)]), flush=True)
            if options.keep:
                print(f"again: penstock model scaling --replay {listed}\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
