"""Heat on a plate that goes on where it was killed: its state is saved in a pool every few steps.

    penstock pool create /var/tmp/plate --size 64M
    penstock run -n 4 -- python examples/checkpoint/heat.py --pool /var/tmp/plate
    penstock run -n 3 -- python examples/checkpoint/heat.py --pool /var/tmp/plate     goes on after a kill

The plate is divided into slabs of rows, one for each rank. Each rank writes its slab into the copy that is not valid, and
flushes it; after a barrier rank 0 commits. Whenever the job is killed, one version is whole; any number of ranks can go
on from it, and the result is the same bit by bit, because a cell's value does not depend on the rank that computes it.
"""

import argparse
import os
import statistics
import sys
from pathlib import Path

import numpy as np
import penstock.pool
from mpi4py import MPI

LINE_CELLS = 8  # a row consists of whole lines


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pool", required=True, help="SPEC of the pool that keeps the plate")
    parser.add_argument("--name", default="plate", help="of the checkpoint in it")
    parser.add_argument("--points", type=int, default=256, help=f"of a side, a multiple of {LINE_CELLS}")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--every", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--pids", help="folder where each rank leaves its process id")
    parser.add_argument("--compare", nargs="*", default=[], help="folders: time the same as a file there")
    options = parser.parse_args()
    if options.points % LINE_CELLS or min(options.points, options.steps, options.every) < 1:
        parser.error(f"--points is a multiple of {LINE_CELLS}, and steps are numbers above 0")
    return options


def share(rows, parts, index):
    """First row and number of rows of part `index`."""
    size, longer = divmod(rows, parts)
    return index * size + min(index, longer), size + (1 if index < longer else 0)


class Plate:
    """One rank's slab, with copies of a neighbour's row above and below."""

    def __init__(self, comm, points):
        self.comm, self.points = comm, points
        self.first, self.rows = share(points, comm.size, comm.rank)
        if self.rows == 0:
            sys.exit(f"checkpoint: {comm.size} ranks for {points} rows: use fewer")
        self.heat = np.zeros((self.rows + 2, points))
        row = np.arange(self.first, self.first + self.rows).reshape(-1, 1)
        self.own[:] = (row * 7919 + np.arange(points) * 104729) % 1009 / 1009

    @property
    def own(self):
        return self.heat[1:-1]

    @property
    def offset(self):
        return self.first * self.points * self.heat.itemsize

    def step(self):
        up = self.comm.rank - 1 if self.comm.rank > 0 else MPI.PROC_NULL
        down = self.comm.rank + 1 if self.comm.rank + 1 < self.comm.size else MPI.PROC_NULL
        self.comm.Sendrecv(self.heat[1], dest=up, recvbuf=self.heat[-1], source=down)
        self.comm.Sendrecv(self.heat[-2], dest=down, recvbuf=self.heat[0], source=up)
        h = self.heat
        around = (h[:-2, 1:-1] + h[2:, 1:-1]) + (h[1:-1, :-2] + h[1:-1, 2:])
        self.own[:, 1:-1] += 0.2 * (around - 4 * h[1:-1, 1:-1])


def save(plate, saved, step):
    saved.begin()
    saved.write(plate.own, plate.offset)
    saved.flush()
    plate.comm.Barrier()  # all slabs are at the device
    if plate.comm.rank == 0:
        saved.commit(step)
    plate.comm.Barrier()  # before any rank begins the next one


def restore(plate, saved):
    """Returns the step to resume from: that of the valid version, which all ranks find; 0 at
    first."""
    info = saved.info()
    if info.version == 0:
        return 0
    plate.own[:] = saved.read(plate.own.shape, "float64", plate.offset)
    return info.tag


def save_to_file(plate, folder, step):
    """The usual way instead: a new file, made durable, then renamed."""
    path = Path(folder, f"penstock-checkpoint-{os.getuid()}")
    if plate.comm.rank == 0:
        path.with_suffix(".new").write_bytes(step.to_bytes(8, "little"))
    plate.comm.Barrier()
    with open(path.with_suffix(".new"), "r+b") as file:
        file.seek(64 + plate.offset)
        file.write(plate.own.data)
        file.flush()
        os.fsync(file.fileno())
    plate.comm.Barrier()
    if plate.comm.rank == 0:
        os.replace(path.with_suffix(".new"), path)
        there = os.open(folder, os.O_RDONLY)
        os.fsync(there)
        os.close(there)
    plate.comm.Barrier()
    return path


def timed(plate, times, action):
    seconds = []
    for _ in range(times):
        plate.comm.Barrier()
        start = MPI.Wtime()
        action()
        seconds.append(plate.comm.allreduce(MPI.Wtime() - start, op=MPI.MAX))
    return statistics.median(seconds)


def compare(plate, saved, options):
    """Saves the last state again, to the pool and to files, in turn."""
    times = 9
    mine = timed(plate, times, lambda: save(plate, saved, options.steps))
    if plate.comm.rank == 0:
        print(f"checkpoint: {plate.points * plate.points * 8 / 1e6:.1f} MB to {options.pool}: {mine * 1e3:.2f} ms",
              flush=True)
    for folder in options.compare:
        other = timed(plate, times, lambda: save_to_file(plate, folder, options.steps))
        if plate.comm.rank == 0:
            save_path = Path(folder, f"penstock-checkpoint-{os.getuid()}")
            save_path.unlink()
            enough = plate.comm.size <= len(os.sched_getaffinity(0))
            ratio = f"{other / mine:.2f} of the pool's" if enough else "not comparable: more ranks than cores"
            print(f"checkpoint: to a file in {folder}: {other * 1e3:.2f} ms, {ratio}", flush=True)


def main():
    options = arguments()
    comm = MPI.COMM_WORLD
    if options.pids:
        Path(options.pids, str(comm.rank)).write_text(str(os.getpid()))
    plate = Plate(comm, options.points)
    with penstock.pool.attach(options.pool) as pool:
        lifetime = "pool" if pool.durability() == "none" else "persistent"
        with pool.checkpoint(options.name, options.points * options.points * 8, lifetime=lifetime) as saved:
            comm.Barrier()
            begun = restore(plate, saved)
            for step in range(begun + 1, options.steps + 1):
                plate.step()
                if step % options.every == 0 or step == options.steps:
                    save(plate, saved, step)
            if comm.rank == 0:
                print(f"checkpoint: {comm.size} ranks, steps {begun + 1} to {options.steps}", flush=True)
            if options.compare:
                compare(plate, saved, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
