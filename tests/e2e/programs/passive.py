"""Random programs of passive target without barriers, checked against a sequential model.

usage: passive.py [--seed N] [--windows N], 2 to 8 ranks

Each rank draws a program of its own for each window: locks of either kind, lock_all, puts, gets, updates, requests,
flushes, stores to its own memory under its lock, pauses. It leaves the window when it is through, wherever the others
are. Who writes a cell does so alone, and all add to counters: so each rank knows from the seed what the others have put
when all have left, and gets what it has put itself at any time.
"""
import argparse
import random
import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size
PLACES, LONG, COUNTERS = 24, 700, 3  # single cells, of all ranks side by side; a run of each rank's; what all add to
OWN_RUN = PLACES * ranks
FIRST_COUNTER = OWN_RUN + LONG * ranks
CELLS = FIRST_COUNTER + COUNTERS

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
parser.add_argument("--windows", type=int, default=12)
options = parser.parse_args()
SEED = comm.bcast(options.seed)


def draw_span(draw, writer):
    """A cell of the writer's, or a part of its run."""
    if draw.random() < 0.6:
        return draw.randrange(PLACES) * ranks + writer, 1
    first = draw.randrange(LONG)
    return OWN_RUN + LONG * writer + first, draw.randint(1, LONG - first)


def draw_accesses(draw, writer, target):
    for _ in range(draw.randrange(5)):
        what = draw.choice(["put", "put", "rput", "get", "rget", "add", "fetch", "flush", "pause"])
        if what in ("add", "fetch"):
            yield what, target, FIRST_COUNTER + draw.randrange(COUNTERS), 1
        else:
            yield what, target, *draw_span(draw, writer)


def draw_program(number, who):
    """Epochs of one rank: how it locks, and its accesses: what, target, first cell, cells."""
    draw = random.Random(f"{SEED}.{number}.{who}")
    for _ in range(draw.randrange(8)):
        target = draw.randrange(ranks)
        how = draw.choice(["shared", "exclusive", "all", "all", "own"])
        if how == "own":
            yield how, [("store", who, *draw_span(draw, who)) for _ in range(3)]
        elif how == "all":
            targets = [draw.randrange(ranks) for _ in range(4)]
            yield how, [access for t in targets for access in draw_accesses(draw, who, t)]
        else:
            yield how, list(draw_accesses(draw, who, target))


class Model:
    """What is in all ranks' cells, of what one rank writes; the counters: what it has added."""

    def __init__(self, writer):
        self.cells = np.zeros((ranks, CELLS), "i8")
        self.last, self.writer = 0, writer

    def take(self, what, target, first, cells):
        """Writes what the access writes, and gives it."""
        span = self.cells[target, first:first + cells]
        if what in ("add", "fetch"):
            span += self.writer + 1
            return np.full(1, self.writer + 1, "i8")
        if what in ("put", "rput", "store"):
            self.last += 1
            span[:] = 1_000_000 * (self.writer + 1) + 1000 * self.last + np.arange(cells)
        return span.copy()


class Program:
    def __init__(self, window, memory, number):
        self.window, self.memory, self.number = window, memory, number
        self.model = Model(rank)
        self.reached, self.kept, self.requests, self.expected = set(), [], [], []
        self.fetched = {}

    def run(self):
        for how, accesses in draw_program(self.number, rank):
            target = accesses[0][1] if accesses else rank
            self.lock(how, target)
            for access in accesses:
                self.go(*access)
            MPI.Request.Waitall(self.requests)
            if how == "all":
                self.window.Unlock_all()
            else:
                self.window.Unlock(target)
            self.check()
            self.reached.clear()

    def lock(self, how, target):
        if how == "all":
            self.window.Lock_all()
        else:
            self.window.Lock(target, MPI.LOCK_SHARED if how == "shared" else MPI.LOCK_EXCLUSIVE)

    def flush(self, target):
        MPI.Request.Waitall(self.requests)
        self.window.Flush(target)
        self.check()
        self.reached = {cell for cell in self.reached if cell[0] != target}

    def go(self, what, target, first, cells):
        if what == "pause":
            return time.sleep(0.002 * (first % 3))
        if what == "flush":
            return self.flush(target)
        span = {(target, cell) for cell in range(first, first + cells)}
        if span & self.reached:  # MPI knows no order of two accesses to a cell
            self.flush(target)
        self.reached |= span
        value = self.model.take(what, target, first, cells)
        if what == "store":
            self.memory[first:first + cells] = value
            return None
        into = np.full(cells, -1, "i8")
        self.kept += [value, into]  # both live until the epoch ends
        if what == "put":
            self.window.Put(value, target, first)
        elif what == "rput":
            self.requests.append(self.window.Rput(value, target, first))
        elif what == "add":
            self.window.Accumulate(value, target, first)
        elif what == "fetch":
            self.window.Fetch_and_op(value, into, target, first)
            self.expected.append((what, target, first, None, into))
        else:
            if what == "get":
                self.window.Get(into, target, first)
            else:
                self.requests.append(self.window.Rget(into, target, first))
            self.expected.append((what, target, first, value, into))
        return None

    def check(self):
        """What was got, once it is there."""
        for what, target, first, value, into in self.expected:
            if value is not None:
                expect(into, value, f"{what} from rank {target}, cell {first}")
                continue
            before = self.fetched.get((target, first), -1)
            assert into[0] > before, f"{where()}: the counter of rank {target} fell from {before} to {into[0]}"
            self.fetched[target, first] = into[0]
        self.requests, self.expected, self.kept = [], [], []


def where():
    return f"rank {rank}, seed {SEED}"


def expect(found, wanted, what):
    wrong = np.flatnonzero(found != wanted)
    assert not len(wrong), (f"{where()}, {what}: {len(wrong)} cells wrong from {wrong[0]} on: "
                            f"{found[wrong[0]]}, not {wanted[wrong[0]]}")


def all_that_was_put(number):
    """Into this rank's memory, by all."""
    cells = np.zeros(CELLS, "i8")
    for writer in range(ranks):
        model = Model(writer)
        for _, accesses in draw_program(number, writer):
            for what, target, first, count in accesses:
                if what not in ("pause", "flush"):
                    model.take(what, target, first, count)
        cells += model.cells[rank]
    return cells


for number in range(options.windows):
    created = random.Random(f"{SEED}.{number}").random() < 0.7
    if created:  # its memory can be looked at when the window has gone
        block = MPI.Alloc_mem(8 * CELLS)
        memory = np.frombuffer(block, "i8")
        memory[:] = 0
        window = MPI.Win.Create(block, 8, comm=comm)
    else:
        window = MPI.Win.Allocate(8 * CELLS, 8, comm=comm)
        memory = np.frombuffer(window.tomemory(), "i8")
        window.Lock(rank, MPI.LOCK_EXCLUSIVE)
        memory[:] = 0
        window.Unlock(rank)
        comm.Barrier()
    Program(window, memory, number).run()
    if not created:
        comm.Barrier()
        window.Lock(rank, MPI.LOCK_SHARED)
        expect(memory, all_that_was_put(number), f"window {number}, under the lock")
        window.Unlock(rank)
    window.Free()
    if created:
        expect(memory, all_that_was_put(number), f"window {number}, when it has gone")
        del memory
        MPI.Free_mem(block)
if rank == 0:
    print(f"passive: ok: {options.windows} windows, {ranks} ranks, seed {SEED}", flush=True)
